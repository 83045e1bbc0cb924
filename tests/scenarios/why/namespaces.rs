//! Namespaces that do not go, or went from Kubernetes only.

use super::support::{Case, Fault, Seeded, Stage};
use crate::{
    namespace_gc::support::{NO_GC, SYSTEM, component, leads},
    support::{Space, on_node},
};
use anyhow::{Result, ensure};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::json;
use std::fs;
use std::sync::Arc;
use volume_warden::why::Code;
use volume_warden_controlplane::eventually;
use volume_warden_storageos::{PASSWORD, StorageOs, USER};

/// All of them.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "namespace with a used claim",
        root: Code::ForeignFinalizer,
        seed: used,
    },
    Fault {
        name: "namespace with other content",
        root: Code::NamespaceContent,
        seed: content,
    },
    Fault {
        name: "namespace that its backend has",
        root: Code::BackendNotEmpty,
        seed: backend,
    },
];

async fn delete(space: &Space) -> Result<()> {
    let delete = ["delete", "namespace", &space.name, "--wait=false"];
    space.cluster.kubectl(&delete).await?;
    Ok(())
}

fn used(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        space.create_claim("data").await?;
        let mut changes = on_node();
        changes["metadata"] = json!({"finalizers": ["example.com/hold"]});
        space.create_pod("user", "data", changes).await?;
        delete(&space).await?;
        let command = format!("kubectl get pod user -n {} -o yaml", space.name);
        Ok(Case::new(&["namespace", &space.name], &command))
    }
    .boxed_local()
}

fn content(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let maps = Api::<ConfigMap>::namespaced(space.cluster.client(), &space.name);
        let map = json!({"metadata": {"name": "kept", "finalizers": ["example.com/hold"]}});
        let map = serde_json::from_value(map)?;
        maps.create(&PostParams::default(), &map).await?;
        delete(&space).await?;
        let command = format!("kubectl get configmaps -n {} -o yaml", space.name);
        Ok(Case::new(&["namespace", &space.name], &command))
    }
    .boxed_local()
}

/// A Volume Warden of its own, whose storage has something in the namespace.
fn backend(stage: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let (storage, secrets) = (StorageOs::start()?, tempfile::tempdir()?);
        fs::write(secrets.path().join("username"), USER)?;
        fs::write(secrets.path().join("password"), PASSWORD)?;
        storage.create(&space.name);
        storage.fill(&space.name);
        let lease = format!("{}-lease", space.name);
        let warden = component(&stage.cluster, &lease, "only")
            .arg(NO_GC)
            .arg("--storage-backend=storageos")
            .arg(format!("--storageos-endpoint={}", storage.endpoint()))
            .arg(format!(
                "--storageos-secret-path={}",
                secrets.path().display()
            ))
            .arg("--insecure-http");
        let _warden = warden.start().await?;
        leads(&stage.cluster, &lease, "only").await?;
        delete(&space).await?;
        let events: Api<Event> = Api::namespaced(stage.cluster.client(), SYSTEM);
        let about = format!("involvedObject.name={lease},reason=NamespaceNotEmpty");
        let about = ListParams::default().fields(&about);
        eventually("it is reported", async || {
            let reported = events.list(&about).await?.items;
            ensure!(!reported.is_empty(), "not yet");
            Ok(())
        })
        .await?;
        Ok(Case::new(&["namespace", &space.name], "kubectl get pv"))
    }
    .boxed_local()
}
