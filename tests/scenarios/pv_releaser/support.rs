//! A namespace with volumes and claims, and assertions about them.

use crate::support::{
    BINARY, Space, claim, manifests, repository,
    shared::{Shared, Slot},
    volume,
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use volume_warden_controlplane::{Cluster, Warden, WardenBuilder, eventually};

/// Label of claims that pvc-provisioner created for a pod. Its value is the controller id.
pub const PROVISIONER: &str = "dynamic-pvc-provisioner.kubernetes.io/managed-by";
/// Label of managed claims and volumes. Its value is the controller id.
pub const LABEL: &str = "reclaimable-pv-releaser.kubernetes.io/managed-by";
/// The label that plumber-cd's releaser wrote instead of [`LABEL`].
pub const LEGACY: &str = "reclaimable-pv-releaser/managed-by";
/// The default controller id.
pub const DEFAULT_ID: &str = "dynamic-reclaimable-pvc-controllers";
/// Annotation of volumes that the binder chose for their claim.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// A cluster without the controller that binds volumes and writes their status: a scenario sets the
/// phases, and nothing changes them. Scenarios with `--associate-by-storage-class` use it, too.
pub async fn without_binder() -> Result<Shared> {
    static WITHOUT_BINDER: Slot = Slot::new();
    let start = async || {
        let binder = ["persistentvolume-binder-controller"];
        let cluster = Cluster::without_in_tree()
            .name("still")
            .without_controllers(&binder);
        let cluster = cluster.start().await?;
        manifests::apply(&cluster, &repository().join("manifests")).await?;
        anyhow::Ok(cluster)
    };
    WITHOUT_BINDER.get(start).await
}

/// A namespace with claims, and volumes whose class has the name of the namespace, so that no claim
/// of another scenario is bound to one. Methods take the short names of volumes, see [`Self::pv`].
pub struct VolumeSpace {
    pub space: Space,
    pub events: Api<Event>,
}

impl VolumeSpace {
    pub async fn new(cluster: Shared, label: &str) -> Result<Self> {
        Ok(Self {
            space: Space::new(cluster.clone(), label).await?,
            // Events about objects without a namespace are in the namespace `default`.
            events: Api::namespaced(cluster.client(), "default"),
        })
    }

    /// The controller id of this scenario's Volume Warden. Ids differ, so that no two scenarios
    /// handle the same volumes. It is also the name of the class.
    pub fn id(&self) -> &str {
        &self.space.name
    }

    /// The full name of the volume.
    pub fn pv(&self, name: &str) -> String {
        format!("pv-{}-{name}", self.space.name)
    }

    pub async fn create(&self, name: &str, changes: Value) -> Result<PersistentVolume> {
        let mut wanted = volume(&self.pv(name), changes)?;
        let class = &mut wanted.spec.get_or_insert_default().storage_class_name;
        class.get_or_insert_with(|| self.space.name.clone());
        let volumes = &self.space.volumes;
        Ok(volumes.create(&PostParams::default(), &wanted).await?)
    }

    /// Creates a volume whose claimRef names a deleted claim of the same name. The binder, if it
    /// runs, sets the phase to Released.
    pub async fn create_with_deleted_claim(&self, name: &str, changes: Value) -> Result<()> {
        let deleted = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": self.space.name, "name": name,
            "uid": format!("uid-of-{name}"), "resourceVersion": "1",
        });
        let mut wanted = json!({"spec": {"claimRef": deleted}});
        json_patch::merge(&mut wanted, &changes);
        self.create(name, wanted).await.map(drop)
    }

    /// Creates a claim that names the volume of the same name.
    pub async fn claim(&self, name: &str, labels: Value) -> Result<()> {
        let spec = json!({"volumeName": self.pv(name)});
        self.create_claim(name, labels, spec).await.map(drop)
    }

    /// Creates a claim for any volume of the class.
    pub async fn claim_any(&self, name: &str, labels: Value) -> Result<PersistentVolumeClaim> {
        self.create_claim(name, labels, json!({})).await
    }

    async fn create_claim(
        &self,
        name: &str,
        labels: Value,
        spec: Value,
    ) -> Result<PersistentVolumeClaim> {
        let mut wanted = json!({"metadata": {"labels": labels}, "spec": spec});
        wanted["spec"]["storageClassName"] = json!(self.space.name);
        let (claims, wanted) = (&self.space.claims, claim(name, wanted)?);
        Ok(claims.create(&PostParams::default(), &wanted).await?)
    }

    /// Creates a volume and a claim with these labels, and waits until they are bound.
    pub async fn pair(&self, name: &str, labels: Value) -> Result<()> {
        self.create(name, json!({})).await?;
        self.claim(name, labels).await?;
        self.has_phase(name, "Bound").await
    }

    pub async fn get(&self, name: &str) -> Result<PersistentVolume> {
        let found = self.space.volumes.get_opt(&self.pv(name)).await?;
        found.with_context(|| format!("there is no volume {name}"))
    }

    pub async fn patch(&self, name: &str, patch: Value) -> Result<()> {
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let volumes = &self.space.volumes;
        volumes.patch(&self.pv(name), &parameters, &patch).await?;
        Ok(())
    }

    /// Sets the phase of the volume, as the binder does.
    pub async fn set_phase(&self, name: &str, phase: &str) -> Result<()> {
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        let (volumes, parameters) = (&self.space.volumes, PatchParams::default());
        let pv = self.pv(name);
        volumes.patch_status(&pv, &parameters, &patch).await?;
        Ok(())
    }

    pub async fn has_phase(&self, name: &str, phase: &str) -> Result<()> {
        eventually(&format!("volume {name} is {phase}"), async || {
            let status = self.get(name).await?.status.unwrap_or_default();
            ensure!(status.phase.as_deref() == Some(phase), "{status:?}");
            Ok(())
        })
        .await
    }

    pub async fn is_labelled(&self, name: &str, value: &str) -> Result<()> {
        eventually(&format!("volume {name} is labelled {value}"), async || {
            let volume = self.get(name).await?;
            let found = volume.labels().get(LABEL);
            ensure!(found.is_some_and(|found| found == value), "{found:?}");
            Ok(())
        })
        .await
    }

    /// Waits until the volume is Available, without a claimRef, label or annotation of its claim.
    pub async fn is_free(&self, name: &str) -> Result<PersistentVolume> {
        eventually(&format!("volume {name} is released"), async || {
            let volume = self.get(name).await?;
            let phase = volume
                .status
                .as_ref()
                .and_then(|each| each.phase.as_deref());
            ensure!(phase == Some("Available"), "{phase:?}");
            let claim = volume
                .spec
                .as_ref()
                .and_then(|spec| spec.claim_ref.as_ref());
            ensure!(claim.is_none(), "{claim:?}");
            let labels = [LABEL, LEGACY].map(|key| volume.labels().get(key));
            ensure!(labels == [None, None], "{labels:?}");
            let bound = volume.annotations().get(BOUND_BY_CONTROLLER);
            ensure!(bound.is_none(), "bound by controller: {bound:?}");
            anyhow::Ok(Some(volume))
        })
        .await
    }

    /// Waits until the volume is Available and its claimRef names a claim in the namespace of
    /// Volume Warden that cannot exist.
    pub async fn is_parked(&self, name: &str, system_namespace: &str) -> Result<()> {
        eventually(&format!("volume {name} is parked"), async || {
            let volume = self.get(name).await?;
            let parked = format!("parked-{}", volume.uid().unwrap_or_default());
            let status = volume.status.unwrap_or_default();
            let claim = volume
                .spec
                .unwrap_or_default()
                .claim_ref
                .unwrap_or_default();
            let found = (claim.namespace.as_deref(), claim.name.as_deref());
            let wanted = (Some(system_namespace), Some(&*parked));
            ensure!(found == wanted && claim.uid.is_none(), "{claim:?}");
            ensure!(status.phase.as_deref() == Some("Available"), "{status:?}");
            Ok(())
        })
        .await
    }

    /// Whether the claimRef of the volume has a uid.
    pub async fn is_claimed(&self, name: &str) -> Result<bool> {
        let spec = self.get(name).await?.spec.unwrap_or_default();
        Ok(spec.claim_ref.is_some_and(|claim| claim.uid.is_some()))
    }

    pub async fn has_no_claim(&self, name: &str) -> Result<()> {
        eventually(&format!("volume {name} has no claim"), async || {
            anyhow::Ok(!self.is_claimed(name).await?)
        })
        .await
    }

    /// The Events about the volume with this reason.
    pub async fn events_about(&self, name: &str, reason: &str) -> Result<Vec<Event>> {
        let fields = format!("involvedObject.name={},reason={reason}", self.pv(name));
        let about = ListParams::default().fields(&fields);
        Ok(self.events.list(&about).await?.items)
    }

    /// Waits until the volume has exactly `times` Events with this reason. Returns their messages.
    pub async fn has_events(&self, name: &str, reason: &str, times: usize) -> Result<String> {
        eventually(&format!("{name} has {times} Events {reason}"), async || {
            let events = self.events_about(name, reason).await?;
            let single = events.iter().all(|event| event.series.is_none());
            ensure!(single && events.len() == times, "{events:?}");
            let messages = events.into_iter().filter_map(|event| event.message);
            anyhow::Ok(Some(messages.collect::<Vec<_>>().join("\n")))
        })
        .await
    }

    /// A Volume Warden with this controller id for the claims of this namespace. Its identity is
    /// always the same, so it does not wait for the Lease of a predecessor to expire.
    pub fn warden(&self, id: &str) -> WardenBuilder<'_> {
        let name = &self.space.name;
        Warden::builder(&self.space.cluster, BINARY)
            .name(format!("warden-{id}"))
            .arg("--components=pv-releaser")
            .arg(format!("--namespace={name}"))
            .arg(format!("--controller-id={id}"))
            .arg("--leader-elect-identity=own")
    }
}

/// The value of the metric `volume_warden_orphaned_volumes`.
pub async fn orphans(warden: &Warden) -> Result<u64> {
    let metrics = warden.metrics().await?;
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix("volume_warden_orphaned_volumes "));
    Ok(value.context("no such metric")?.parse()?)
}
