//! Volumes and their claims for the scenarios, and what is asked about them.

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

/// On claims that were made for a pod.
pub const PROVISIONER: &str = "dynamic-pvc-provisioner.kubernetes.io/managed-by";
/// On claims and volumes.
pub const LABEL: &str = "reclaimable-pv-releaser.kubernetes.io/managed-by";
/// What the original wrote instead.
pub const LEGACY: &str = "reclaimable-pv-releaser/managed-by";
/// Of a Volume Warden that is not configured otherwise.
pub const DEFAULT_ID: &str = "dynamic-reclaimable-pvc-controllers";
/// The binder writes it where it chose the volume itself.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// A cluster in which no controller binds volumes or writes their status: a scenario sets the
/// phases, and they stay. Classes count here.
pub async fn still() -> Result<Shared> {
    static STILL: Slot = Slot::new();
    let start = async || {
        let binder = ["persistentvolume-binder-controller"];
        let cluster = Cluster::without_in_tree()
            .name("still")
            .without_controllers(&binder);
        let cluster = cluster.start().await?;
        manifests::apply(&cluster, &repository().join("manifests")).await?;
        anyhow::Ok(cluster)
    };
    STILL.get(start).await
}

/// A namespace, and volumes of a class of its own: no other scenario's claim can take one. They are
/// called by short names here.
pub struct Estate {
    pub space: Space,
    pub events: Api<Event>,
}

impl Estate {
    pub async fn new(cluster: Shared, label: &str) -> Result<Self> {
        Ok(Self {
            space: Space::new(cluster.clone(), label).await?,
            // Where the events about objects without a namespace are.
            events: Api::namespaced(cluster.client(), "default"),
        })
    }

    /// The controller id of its own Volume Warden, so that no two scenarios' work on the same
    /// volumes. Also the class.
    pub fn id(&self) -> &str {
        &self.space.name
    }

    /// The volume's whole name.
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

    /// A volume of a claim of the same name that has long been gone. It is for the binder to turn
    /// it Released.
    pub async fn create_abandoned(&self, name: &str, changes: Value) -> Result<()> {
        let gone = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": self.space.name, "name": name,
            "uid": format!("uid-of-{name}"), "resourceVersion": "1",
        });
        let mut wanted = json!({"spec": {"claimRef": gone}});
        json_patch::merge(&mut wanted, &changes);
        self.create(name, wanted).await.map(drop)
    }

    /// A claim for the volume of its name.
    pub async fn claim(&self, name: &str, labels: Value) -> Result<()> {
        let spec = json!({"volumeName": self.pv(name)});
        self.create_claim(name, labels, spec).await.map(drop)
    }

    /// A claim for any volume of the class.
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

    /// A volume and a claim with these labels, bound to each other.
    pub async fn pair(&self, name: &str, labels: Value) -> Result<()> {
        self.create(name, json!({})).await?;
        self.claim(name, labels).await?;
        self.is(name, "Bound").await
    }

    pub async fn get(&self, name: &str) -> Result<PersistentVolume> {
        let found = self.space.volumes.get_opt(&self.pv(name)).await?;
        found.with_context(|| format!("volume {name} is gone"))
    }

    pub async fn patch(&self, name: &str, patch: Value) -> Result<()> {
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let volumes = &self.space.volumes;
        volumes.patch(&self.pv(name), &parameters, &patch).await?;
        Ok(())
    }

    /// Says the volume's phase, as the binder does.
    pub async fn turn(&self, name: &str, phase: &str) -> Result<()> {
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        let (volumes, parameters) = (&self.space.volumes, PatchParams::default());
        let pv = self.pv(name);
        volumes.patch_status(&pv, &parameters, &patch).await?;
        Ok(())
    }

    pub async fn is(&self, name: &str, phase: &str) -> Result<()> {
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

    /// The volume is Available, and nothing reminds of its claim.
    pub async fn is_free(&self, name: &str) -> Result<PersistentVolume> {
        eventually(&format!("volume {name} is free"), async || {
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
            let rest = [LABEL, LEGACY].map(|key| volume.labels().get(key));
            ensure!(rest == [None, None], "{rest:?}");
            let bound = volume.annotations().get(BOUND_BY_CONTROLLER);
            ensure!(bound.is_none(), "bound by controller: {bound:?}");
            anyhow::Ok(Some(volume))
        })
        .await
    }

    /// The volume is Available and names a claim in the namespace of Volume Warden that cannot exist.
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

    /// Whether the volume has a claim, by uid.
    pub async fn is_claimed(&self, name: &str) -> Result<bool> {
        let spec = self.get(name).await?.spec.unwrap_or_default();
        Ok(spec.claim_ref.is_some_and(|claim| claim.uid.is_some()))
    }

    pub async fn is_disclaimed(&self, name: &str) -> Result<()> {
        eventually(&format!("volume {name} has no claim"), async || {
            anyhow::Ok(!self.is_claimed(name).await?)
        })
        .await
    }

    /// Events about the volume with this reason.
    pub async fn reported_of(&self, name: &str, reason: &str) -> Result<Vec<Event>> {
        let fields = format!("involvedObject.name={},reason={reason}", self.pv(name));
        let about = ListParams::default().fields(&fields);
        Ok(self.events.list(&about).await?.items)
    }

    /// So many Events were published about the volume with this reason. Returns their notes.
    pub async fn reported(&self, name: &str, reason: &str, times: usize) -> Result<String> {
        eventually(&format!("{reason} is published about {name}"), async || {
            let events = self.reported_of(name, reason).await?;
            let single = events.iter().all(|event| event.series.is_none());
            ensure!(single && events.len() == times, "{events:?}");
            let messages = events.into_iter().filter_map(|event| event.message);
            anyhow::Ok(Some(messages.collect::<Vec<_>>().join("\n")))
        })
        .await
    }

    /// A Volume Warden of this controller id for the claims of this namespace. It is always of one
    /// identity: the same one need not wait for a predecessor's Lease to expire.
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

/// What `volume_warden_orphaned_volumes` says.
pub async fn orphans(warden: &Warden) -> Result<u64> {
    let metrics = warden.metrics().await?;
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix("volume_warden_orphaned_volumes "));
    Ok(value.context("no such metric")?.parse()?)
}
