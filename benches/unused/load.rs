//! Claims and volumes that are used or unused, and what refers to them.

use crate::each::{AT_ONCE, each};
use anyhow::Result;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        batch::v1::{CronJob, Job},
        core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    },
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::fmt::Debug;
use volume_warden_controlplane::Cluster;

/// The namespace of all claims.
pub const NAMESPACE: &str = "load";

/// The flag with the field in which the custom resources name claims.
pub const REFERENCES: &str = "--references=unused.example/Database:.spec.claims[*]";

/// The number of claims or volumes of each way.
pub const EACH: usize = 50;

/// The ways in which storage is unused: the beginning of its name, and its state and references.
pub const WAYS: [(&str, &str); 10] = [
    ("never", "Unused "),
    ("finished", "Unused Job migrate (finished)"),
    ("scaled", "Unused Deployment shop (0 replicas)"),
    ("suspended", "Unused CronJob backup (suspended)"),
    ("deleted-owner", "Unused owner StatefulSet gone (deleted)"),
    ("snapshot", "Unused VolumeSnapshot nightly"),
    ("custom", "Unused Database main"),
    ("released", "Released "),
    ("in-trash", "InTrash "),
    ("free", "Available "),
];

/// A client that creates the load in a cluster.
pub struct Load(Client);

impl Load {
    /// Creates the CustomResourceDefinitions of the load.
    pub async fn new(cluster: &Cluster) -> Result<Self> {
        for kind in [snapshots(), databases()] {
            let definition = definition(&kind).to_string();
            cluster
                .kubectl_with_stdin(&["apply", "-f", "-"], &definition)
                .await?;
            let name = format!("crd/{}.{}", kind.plural, kind.group);
            let wait = [
                "wait",
                "--for=condition=Established",
                "--timeout=120s",
                &name,
            ];
            cluster.kubectl(&wait).await?;
        }
        Ok(Self(cluster.client()))
    }

    /// Creates this number of claims with volumes and pods that use them, and the unused claims and
    /// volumes of [`WAYS`].
    pub async fn fill(&self, used: usize) -> Result<()> {
        self.claims("used", used).await?;
        each(used, AT_ONCE, async |index| {
            let claim = format!("used-{index}");
            let pod = json!({"metadata": {"name": format!("pod-{index}")}, "spec": {
                "nodeName": "node-1", "containers": [{"name": "main", "image": "main"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}});
            self.create::<Pod>(pod).await
        })
        .await?;
        for (way, _) in &WAYS[..7] {
            self.claims(way, EACH).await?;
        }
        self.workloads().await?;
        self.custom_resources().await?;
        each(EACH, AT_ONCE, async |index| {
            self.volumes_without_claim(index).await
        })
        .await?;
        Ok(())
    }

    /// Creates claims, each with its volume.
    async fn claims(&self, way: &str, count: usize) -> Result<()> {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "gone", "uid": "gone"});
        let owners = match way {
            "deleted-owner" => json!([owner]),
            _ => json!([]),
        };
        let create = async |index| {
            let name = format!("{way}-{index}");
            let claim = json!({"metadata": {"name": name, "ownerReferences": owners}, "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeName": name,
                "resources": {"requests": {"storage": "10Gi"}}}});
            self.create::<PersistentVolumeClaim>(claim).await?;
            let claim = json!({"namespace": NAMESPACE, "name": name});
            self.volume(json!({"metadata": {"name": name}, "spec": {"claimRef": claim}}))
                .await
        };
        each(count, AT_ONCE, create).await.map(drop)
    }

    /// Creates workloads without pods. Each has volumes for all claims of its way.
    async fn workloads(&self) -> Result<()> {
        let shop = json!({"replicas": 0, "selector": {"matchLabels": {"app": "scaled"}},
            "template": pods("scaled", "Always")});
        self.create::<Deployment>(json!({"metadata": {"name": "shop"}, "spec": shop}))
            .await?;
        let backup = json!({"suspend": true, "schedule": "0 0 * * *",
            "jobTemplate": {"spec": {"template": pods("suspended", "Never")}}});
        self.create::<CronJob>(json!({"metadata": {"name": "backup"}, "spec": backup}))
            .await?;
        let migrate = json!({"template": pods("finished", "Never")});
        self.create::<Job>(json!({"metadata": {"name": "migrate"}, "spec": migrate}))
            .await?;
        let times = "2026-01-01T00:00:00Z";
        let done = |kind| json!({"type": kind, "status": "True", "lastTransitionTime": times});
        let status = json!({"status": {"startTime": times, "completionTime": times,
            "conditions": [done("SuccessCriteriaMet"), done("Complete")]}});
        let jobs = Api::<Job>::namespaced(self.0.clone(), NAMESPACE);
        let merge = Patch::Merge(&status);
        jobs.patch_status("migrate", &Default::default(), &merge)
            .await?;
        Ok(())
    }

    async fn custom_resources(&self) -> Result<()> {
        let claims: Vec<_> = (0..EACH).map(|index| format!("custom-{index}")).collect();
        self.create_custom(&databases(), "main", json!({"claims": claims}))
            .await?;
        for index in 0..EACH {
            let source = json!({"persistentVolumeClaimName": format!("snapshot-{index}")});
            let name = format!("nightly-{index}");
            self.create_custom(&snapshots(), &name, json!({"source": source}))
                .await?;
        }
        Ok(())
    }

    /// Creates a released volume, one in the trash, and one that is Available.
    async fn volumes_without_claim(&self, index: usize) -> Result<()> {
        let record = json!({"policy": "Delete", "windowSeconds": 3600, "finalizers": [],
            "claim": {"namespace": NAMESPACE, "name": format!("in-trash-{index}"), "uid": "gone"}});
        let record = json!({"volume-warden.dev/trash": record.to_string()});
        for (way, phase, annotations) in [
            ("released", "Released", json!({})),
            ("in-trash", "Released", record),
            ("free", "Available", json!({})),
        ] {
            let name = format!("{way}-{index}");
            let claim = match phase {
                "Released" => json!({"namespace": NAMESPACE, "name": name, "uid": "gone"}),
                _ => json!(null),
            };
            self.volume(
                json!({"metadata": {"name": name, "annotations": annotations},
                "spec": {"claimRef": claim}}),
            )
            .await?;
            let status = json!({"status": {"phase": phase}});
            let volumes = Api::<PersistentVolume>::all(self.0.clone());
            let merge = Patch::Merge(&status);
            volumes
                .patch_status(&name, &Default::default(), &merge)
                .await?;
        }
        Ok(())
    }

    async fn volume(&self, changes: Value) -> Result<()> {
        let mut volume = json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}, "storageClassName": "fast",
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": "csi.example.com", "volumeHandle": "handle"}}});
        json_patch::merge(&mut volume, &changes);
        let volume: PersistentVolume = serde_json::from_value(volume)?;
        let volumes = Api::<PersistentVolume>::all(self.0.clone());
        volumes.create(&PostParams::default(), &volume).await?;
        Ok(())
    }

    async fn create<K>(&self, object: Value) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + Serialize + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object)?;
        let api = Api::<K>::namespaced(self.0.clone(), NAMESPACE);
        api.create(&PostParams::default(), &object).await?;
        Ok(())
    }

    async fn create_custom(&self, kind: &ApiResource, name: &str, spec: Value) -> Result<()> {
        let object = DynamicObject::new(name, kind).data(json!({"spec": spec}));
        let api = Api::namespaced_with(self.0.clone(), NAMESPACE, kind);
        api.create(&PostParams::default(), &object).await?;
        Ok(())
    }
}

fn snapshots() -> ApiResource {
    let kind = GroupVersionKind::gvk("snapshot.storage.k8s.io", "v1", "VolumeSnapshot");
    ApiResource::from_gvk(&kind)
}

fn databases() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("unused.example", "v1", "Database"))
}

/// A CustomResourceDefinition that permits any fields.
fn definition(kind: &ApiResource) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    // Kubernetes requires this annotation for its own API groups.
    let approved = json!({"api-approved.kubernetes.io": "unapproved, a test"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", kind.plural, kind.group), "annotations": approved},
        "spec": {"group": kind.group, "scope": "Namespaced",
            "names": {"plural": kind.plural, "kind": kind.kind},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]},
    })
}

/// A pod template with a volume for each claim of the way.
fn pods(way: &str, restart: &str) -> Value {
    let volumes = (0..EACH).map(|index| {
        let claim = json!({"claimName": format!("{way}-{index}")});
        json!({"name": format!("v{index}"), "persistentVolumeClaim": claim})
    });
    json!({"metadata": {"labels": {"app": way}}, "spec": {"restartPolicy": restart,
        "containers": [{"name": "main", "image": "main"}], "volumes": volumes.collect::<Vec<_>>()}})
}
