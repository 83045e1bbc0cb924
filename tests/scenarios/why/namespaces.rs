//! Faults of namespaces that stay Terminating, or that are deleted in Kubernetes but not in the
//! storage backend.

use super::support::{Case, Fault, Injection, WhyFixture};
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

/// The faults of namespaces.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "namespace with a used claim",
        root: Code::ForeignFinalizer,
        inject: used_claim,
    },
    Fault {
        name: "namespace with other content",
        root: Code::NamespaceContent,
        inject: other_content,
    },
    Fault {
        name: "namespace that its backend has",
        root: Code::BackendNotEmpty,
        inject: not_empty_in_backend,
    },
];

async fn delete_namespace(space: &Space) -> Result<()> {
    let delete = ["delete", "namespace", &space.name, "--wait=false"];
    space.cluster.kubectl(&delete).await?;
    Ok(())
}

fn used_claim(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        space.create_claim("data").await?;
        let mut changes = on_node();
        changes["metadata"] = json!({"finalizers": ["example.com/hold"]});
        space.create_pod("user", "data", changes).await?;
        delete_namespace(&space).await?;
        let command = format!("kubectl get pod user -n {} -o yaml", space.name);
        Ok(Case::new(&["namespace", &space.name], &command))
    }
    .boxed_local()
}

fn other_content(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let maps = Api::<ConfigMap>::namespaced(space.cluster.client(), &space.name);
        let map = json!({"metadata": {"name": "kept", "finalizers": ["example.com/hold"]}});
        let map = serde_json::from_value(map)?;
        maps.create(&PostParams::default(), &map).await?;
        delete_namespace(&space).await?;
        let command = format!(
            "kubectl get configmaps -n {} -o custom-columns=NAME:.metadata.name,FINALIZERS:.metadata.finalizers",
            space.name
        );
        Ok(Case::new(&["namespace", &space.name], &command))
    }
    .boxed_local()
}

/// Starts another Volume Warden, whose storage backend has a volume in the namespace.
fn not_empty_in_backend(fixture: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let (storage, secrets) = (StorageOs::start()?, tempfile::tempdir()?);
        fs::write(secrets.path().join("username"), USER)?;
        fs::write(secrets.path().join("password"), PASSWORD)?;
        storage.create(&space.name);
        storage.fill(&space.name);
        let lease = format!("{}-lease", space.name);
        let warden = component(&fixture.cluster, &lease, "only")
            .arg(NO_GC)
            .arg("--storage-backend=storageos")
            .arg(format!("--storageos-endpoint={}", storage.endpoint()))
            .arg(format!(
                "--storageos-secret-path={}",
                secrets.path().display()
            ))
            .arg("--insecure-http");
        let _warden = warden.start().await?;
        leads(&fixture.cluster, &lease, "only").await?;
        delete_namespace(&space).await?;
        let events: Api<Event> = Api::namespaced(fixture.cluster.client(), SYSTEM);
        let about = format!("involvedObject.name={lease},reason=NamespaceNotEmpty");
        let about = ListParams::default().fields(&about);
        eventually("the Event NamespaceNotEmpty exists", async || {
            let reported = events.list(&about).await?.items;
            ensure!(!reported.is_empty(), "no Event");
            Ok(())
        })
        .await?;
        Ok(Case::new(&["namespace", &space.name], "kubectl get pv"))
    }
    .boxed_local()
}
