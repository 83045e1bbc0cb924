//! One of the two clusters of a scenario: what is done there, and what it looks like.

use super::{
    projection::{Projection, line},
    scenario::Object,
};
use crate::support::{Space, claim, pod, volume};
use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use volume_warden_controlplane::{AuditLog, Call, Cluster, Mark, eventually};

/// Stands in manifests for the scenario's namespace, which has another name on each cluster.
const NAMESPACE: &str = "$NAMESPACE";

/// A namespace of the scenario on one cluster.
pub struct Side {
    space: Space,
    client: Client,
    audit: AuditLog,
    start: Mark,
}

impl Side {
    pub async fn new(cluster: &'static Cluster, label: &str) -> Result<Self> {
        let audit = cluster.audit();
        Ok(Self {
            space: Space::new(cluster, label).await?,
            client: cluster.client(),
            start: audit.mark()?,
            audit,
        })
    }

    pub async fn create(&self, object: Object, changes: &Value) -> Result<()> {
        let manifest = self.localized(&manifest(object, changes)?)?;
        self.api(object)
            .create(&PostParams::default(), &serde_json::from_value(manifest)?)
            .await?;
        Ok(())
    }

    /// Creates it or is refused, which [`Side::refusals`] shows.
    pub async fn create_unless_refused(&self, object: Object, changes: &Value) -> Result<()> {
        let created = self.create(object, changes).await;
        created.or_else(|error| match error.downcast_ref() {
            Some(kube::Error::Api(status)) if status.code == 403 => Ok(()),
            _ => Err(error),
        })
    }

    /// Deletes it; a pod without waiting for a kubelet.
    pub async fn delete(&self, object: Object) -> Result<()> {
        let parameters = match object {
            Object::Pod(_) => DeleteParams::default().grace_period(0),
            Object::Claim(_) | Object::Volume(_) => DeleteParams::default(),
        };
        let name = self.name(object).await?;
        self.api(object).delete(&name, &parameters).await?;
        Ok(())
    }

    pub async fn delete_namespace(&self) -> Result<()> {
        let delete = ["delete", "namespace", &self.space.name, "--timeout=60s"];
        self.space.cluster.kubectl(&delete).await.map(drop)
    }

    pub async fn patch(&self, object: Object, patch: &Value) -> Result<()> {
        let name = self.name(object).await?;
        let patch = Patch::Merge(self.localized(patch)?);
        self.api(object)
            .patch(&name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    pub async fn patch_pod_status(&self, pod: &str, status: &Value) -> Result<()> {
        self.space.patch_pod_status(pod, status.clone()).await
    }

    /// A claim and a volume come and go: whoever works off events in their order has by now worked off everything before.
    pub async fn canaries(&self) -> Result<()> {
        for canary in [Object::Claim("canary"), Object::Volume("canary")] {
            self.create(canary, &json!({})).await?;
            let (api, name) = (self.api(canary), self.name(canary).await?);
            eventually("the canary is protected", async || {
                anyhow::Ok(!api.get(&name).await?.finalizers().is_empty())
            })
            .await?;
            self.delete(canary).await?;
            eventually("the canary is gone", async || {
                anyhow::Ok(api.get_opt(&name).await?.is_none())
            })
            .await?;
        }
        Ok(())
    }

    pub async fn look(&self) -> Result<Projection> {
        let everything = ListParams::default();
        let mut lines = Projection::new();
        for claim in self.api(Object::Claim("")).list(&everything).await? {
            lines.insert(line("claim", &claim.name_any(), &claim));
        }
        for pod in self.api(Object::Pod("")).list(&everything).await? {
            lines.insert(line("pod", &pod.name_any(), &pod));
        }
        for volume in self.api(Object::Volume("")).list(&everything).await? {
            if let Some(name) = self.volume_label(&volume) {
                lines.insert(line("volume", &name, &volume));
            }
        }
        Ok(lines)
    }

    /// The writes that were refused so far, as `update persistentvolumes disk`.
    pub fn refusals(&self) -> Result<BTreeSet<String>> {
        let calls = self.audit.since(self.start)?;
        let refused = calls
            .iter()
            .filter(|call| call.is_write() && call.code == 403);
        Ok(refused
            .filter_map(|call| {
                let name = self.label_in(call)?;
                Some(format!("{} {} {name}", call.verb, call.resource))
            })
            .collect())
    }

    fn label_in<'a>(&self, call: &'a Call) -> Option<&'a str> {
        match call.resource.as_str() {
            "persistentvolumes" => self.without_namespace(&call.name),
            "persistentvolumeclaims" | "pods" if call.namespace == self.space.name => {
                Some(&call.name)
            }
            _ => None,
        }
    }

    /// What the scenario calls a volume, if it is one of its own: a provisioned one goes by its claim.
    fn volume_label(&self, volume: &DynamicObject) -> Option<String> {
        let claim = &volume.data["spec"]["claimRef"];
        let ours = claim["namespace"] == *self.space.name;
        let created = volume.metadata.name.as_deref()?;
        self.without_namespace(created)
            .map(str::to_owned)
            .or_else(|| ours.then(|| format!("of {}", claim["name"].as_str().unwrap_or_default())))
    }

    fn without_namespace<'a>(&self, volume: &'a str) -> Option<&'a str> {
        volume.strip_suffix(&self.space.name)?.strip_suffix('-')
    }

    async fn name(&self, object: Object) -> Result<String> {
        let Object::Volume(label) = object else {
            return Ok(object.name().to_owned());
        };
        let volumes = self.api(object).list(&ListParams::default()).await?;
        volumes
            .into_iter()
            .find(|volume| self.volume_label(volume).as_deref() == Some(label))
            .and_then(|volume| volume.metadata.name)
            .with_context(|| format!("there is no volume {label}"))
    }

    fn localized(&self, manifest: &Value) -> Result<Value> {
        let text = manifest.to_string().replace(NAMESPACE, &self.space.name);
        Ok(serde_json::from_str(&text)?)
    }

    fn api(&self, object: Object) -> Api<DynamicObject> {
        let client = self.client.clone();
        let namespace = &self.space.name;
        match object {
            Object::Claim(_) => Api::namespaced_with(
                client,
                namespace,
                &ApiResource::erase::<PersistentVolumeClaim>(&()),
            ),
            Object::Pod(_) => {
                Api::namespaced_with(client, namespace, &ApiResource::erase::<Pod>(&()))
            }
            Object::Volume(_) => {
                Api::all_with(client, &ApiResource::erase::<PersistentVolume>(&()))
            }
        }
    }
}

/// Volumes have a class of their scenario's own and claims one that no volume has, so that the binder brings no strangers together.
fn manifest(object: Object, changes: &Value) -> Result<Value> {
    let class = |name: &str| json!({"spec": {"storageClassName": name}});
    let mut manifest = match object {
        Object::Claim(name) => serde_json::to_value(claim(name, class("nobody"))?)?,
        Object::Pod(name) => serde_json::to_value(pod(name, "data", json!({}))?)?,
        Object::Volume(name) => {
            serde_json::to_value(volume(&format!("{name}-{NAMESPACE}"), class(NAMESPACE))?)?
        }
    };
    json_patch::merge(&mut manifest, changes);
    Ok(manifest)
}
