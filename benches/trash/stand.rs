//! A control plane with a CSI driver, with or without Volume Warden.

use crate::follow::{CONNECTION, follow};
use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use std::{
    path::Path,
    time::{Duration, Instant},
};
use volume_warden_controlplane::{Cluster, Csi, Warden};

/// The annotation of a volume whose deletion can be undone.
pub const RECORD: &str = "volume-warden.dev/trash";
/// The time limit: a busy machine needs minutes to provision or delete thousands of volumes.
pub const LIMIT: Duration = Duration::from_secs(1200);
/// Controllers that would write to each node on the same two cores.
const QUIET: [&str; 2] = ["node-lifecycle-controller", "taint-eviction-controller"];

/// A control plane with a CSI driver.
pub struct Stand {
    pub cluster: Cluster,
    pub csi: Csi,
    pub volumes: Api<PersistentVolume>,
    warden: Option<Warden>,
}

impl Stand {
    /// Starts the control plane. With Volume Warden, its controllers replace those of Kubernetes.
    pub async fn new(with_warden: bool) -> Result<Self> {
        let builder = if with_warden {
            Cluster::without_in_tree()
        } else {
            Cluster::in_tree()
        };
        let builder = builder.name("trash").nodes(1).without_controllers(&QUIET);
        let unlimited = Some((10_000, 10_000));
        let cluster = builder.controller_manager_qps(unlimited).start().await?;
        let warden = if with_warden {
            Some(start_warden(&cluster).await?)
        } else {
            None
        };
        let csi = Csi::start(&cluster, "csi-trash").await?;
        Ok(Self {
            volumes: Api::all(cluster.client()),
            cluster,
            csi,
            warden,
        })
    }

    pub async fn stop(self) {
        drop((self.csi, self.warden));
        self.cluster.stop().await;
    }

    /// Creates a StorageClass of the driver.
    pub async fn create_class(&self, name: &str, policy: &str, annotations: Value) -> Result<()> {
        let class = serde_json::from_value(json!({
            "metadata": {"name": name, "annotations": annotations},
            "provisioner": self.csi.name(), "reclaimPolicy": policy,
            "volumeBindingMode": "Immediate",
        }))?;
        let classes: Api<StorageClass> = Api::all(self.cluster.client());
        classes.create(&PostParams::default(), &class).await?;
        Ok(())
    }

    pub fn claims(&self, namespace: &str) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.cluster.client(), namespace)
    }

    /// The `resourceVersion` of the current list of volumes.
    pub async fn version(&self) -> Result<String> {
        let list = self.volumes.list_metadata(&ListParams::default()).await?;
        list.metadata.resource_version.context("no version")
    }

    /// Passes each change of a volume after `version` to `see` until `see` returns true. Returns
    /// the time at which that happened.
    pub async fn watch(
        &self,
        version: String,
        see: impl FnMut(&WatchEvent<PersistentVolume>) -> bool,
    ) -> Result<Instant> {
        let open = |version: String| async move {
            let parameters = WatchParams::default().timeout(CONNECTION);
            let events = self.volumes.watch(&parameters, &version).await?;
            Ok(events.boxed())
        };
        tokio::time::timeout(LIMIT, follow(version, open, see)).await??;
        Ok(Instant::now())
    }
}

async fn start_warden(cluster: &Cluster) -> Result<Warden> {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests");
    cluster.apply_kustomization(manifests).await?;
    Warden::builder(cluster, env!("CARGO_BIN_EXE_volume-warden"))
        .arg("--trash-max-purges=unlimited")
        .serving()
        .quiet()
        .start()
        .await
}

/// A claim of this class.
pub fn claim(name: &str, class: &str) -> Result<PersistentVolumeClaim> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }))?)
}

pub fn phase(volume: &PersistentVolume) -> &str {
    let status = volume.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    phase.unwrap_or_default()
}

pub fn policy(volume: &PersistentVolume) -> &str {
    let spec = volume.spec.as_ref();
    let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    policy.unwrap_or_default()
}

/// Whether the volume is Released, and its record has the time at which the claim was deleted.
pub fn is_in_trash(volume: &PersistentVolume) -> bool {
    let record = volume.annotations().get(RECORD);
    phase(volume) == "Released" && record.is_some_and(|record| record.contains("\"deletedAt\""))
}
