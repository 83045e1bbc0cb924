//! One of the two clusters of a scenario and the operations on it. [`super::snapshot`] reads its
//! state.

use super::{
    manifests::{NAMESPACE, manifest, set},
    scenario::{Object, Owner, Step},
};
use crate::support::{Space, shared::Shared};
use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod},
};
use kube::{
    Api, Client, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
        PropagationPolicy,
    },
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};
use volume_warden_controlplane::{AuditLog, Mark, eventually};

/// Part of the name of every [canary](Side::canaries), and of no other object.
pub const CANARY: &str = "canary";

/// A namespace of the scenario on one cluster.
pub struct Side {
    pub(super) space: Space,
    client: Client,
    pub(super) audit: AuditLog,
    pub(super) start: Mark,
    /// The resourceVersion of the list of claims at the start.
    pub(super) first_version: String,
    /// The uids that were observed for each claim name.
    pub(super) incarnations: Mutex<BTreeMap<String, Vec<String>>>,
    /// Number of created sets, including canaries.
    sets: AtomicUsize,
}

impl Side {
    pub async fn new(cluster: Shared, label: &str) -> Result<Self> {
        let (space, audit) = (Space::new(cluster.clone(), label).await?, cluster.audit());
        let claims = space.claims.list(&ListParams::default().limit(1)).await?;
        Ok(Self {
            space,
            client: cluster.client(),
            start: audit.mark()?,
            audit,
            first_version: claims.metadata.resource_version.unwrap_or_default(),
            incarnations: Mutex::default(),
            sets: AtomicUsize::new(0),
        })
    }

    pub async fn perform(&self, operation: &Step) -> Result<()> {
        match operation {
            Step::Create(object, changes) => self.create(*object, changes).await,
            Step::TryCreate(object, changes) => self.create_unless_refused(*object, changes).await,
            Step::Delete(object) => self.delete(*object, None).await,
            Step::DeleteWith(object, policy) => self.delete(*object, Some(policy)).await,
            Step::Patch(object, patch) => self.patch(*object, patch).await,
            Step::PatchPodStatus(pod, status) => {
                self.space.patch_pod_status(pod, status.clone()).await
            }
            Step::SetOwner(claim, owner) => self.set_owner(claim, *owner).await,
            Step::DeleteNamespace => self.delete_namespace().await,
            checkpoint => bail!("{checkpoint:?} is not an operation on one side"),
        }
    }

    async fn create(&self, object: Object, changes: &Value) -> Result<()> {
        if let Object::Set(_) = object {
            self.sets.fetch_add(1, Ordering::Relaxed);
        }
        let manifest = self.localized(&manifest(object, changes)?)?;
        self.api(object)
            .create(&PostParams::default(), &serde_json::from_value(manifest)?)
            .await?;
        Ok(())
    }

    /// Creates the object. A refusal is no error; [`Side::refusals`] shows it.
    async fn create_unless_refused(&self, object: Object, changes: &Value) -> Result<()> {
        let created = self.create(object, changes).await;
        created.or_else(|error| match error.downcast_ref() {
            Some(kube::Error::Api(status)) if status.code == 403 => Ok(()),
            _ => Err(error),
        })
    }

    /// Deletes the object; a pod without waiting for a kubelet.
    async fn delete(&self, object: Object, policy: Option<&PropagationPolicy>) -> Result<()> {
        let parameters = DeleteParams {
            grace_period_seconds: matches!(object, Object::Pod(_)).then_some(0),
            propagation_policy: policy.cloned(),
            ..DeleteParams::default()
        };
        let name = self.name(object).await?;
        self.api(object).delete(&name, &parameters).await?;
        Ok(())
    }

    async fn delete_namespace(&self) -> Result<()> {
        let delete = ["delete", "namespace", &self.space.name, "--timeout=180s"];
        self.space.cluster.kubectl(&delete).await.map(drop)
    }

    async fn patch(&self, object: Object, patch: &Value) -> Result<()> {
        let name = self.name(object).await?;
        let patch = Patch::Merge(self.localized(patch)?);
        self.api(object)
            .patch(&name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    async fn set_owner(&self, claim: &str, owner: Owner) -> Result<()> {
        let name = owner.name();
        let map = self.api(Object::ConfigMap(name)).get(name).await?;
        let controls = matches!(owner, Owner::Controller(_));
        let mut owners = vec![json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": map.metadata.uid,
            "controller": controls, "blockOwnerDeletion": controls,
        })];
        if !controls {
            let claim = self.space.claims.get(claim).await?;
            let others = claim.owner_references().iter();
            owners.extend(others.map(|other| json!(other)));
        }
        let patch = json!({"metadata": {"ownerReferences": owners}});
        self.space.patch_claim(claim, patch).await
    }

    /// Creates and deletes objects. A controller that processes events in order has then processed
    /// all earlier events.
    pub async fn canaries(&self) -> Result<()> {
        if self.sets.load(Ordering::Relaxed) > 0 {
            return self.canary_set().await;
        }
        for canary in [Object::Claim(CANARY), Object::Volume(CANARY)] {
            self.create(canary, &json!({})).await?;
            let (api, name) = (self.api(canary), self.name(canary).await?);
            eventually("the canary is protected", async || {
                anyhow::Ok(!api.get(&name).await?.finalizers().is_empty())
            })
            .await?;
            self.delete(canary, None).await?;
            eventually("the canary is deleted", async || {
                anyhow::Ok(api.get_opt(&name).await?.is_none())
            })
            .await?;
        }
        Ok(())
    }

    /// Creates the claim before the canary, so that the reconciler sets the owner of the claim, and
    /// not the webhook.
    async fn canary_set(&self) -> Result<()> {
        let number = self.sets.fetch_add(1, Ordering::Relaxed);
        let name = format!("{CANARY}{number}");
        let claim = format!("data-{name}-0");
        self.space.create_claim(&claim).await?;
        let mut canary = set(&name)?;
        canary["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": "Delete"});
        let sets = self.api(Object::Set(""));
        sets.create(&PostParams::default(), &serde_json::from_value(canary)?)
            .await?;
        eventually("the canary owns its claim", async || {
            let claim = self.space.claims.get(&claim).await?;
            let owners = claim.owner_references();
            ensure!(owners.iter().any(|owner| owner.name == name), "{owners:?}");
            Ok(())
        })
        .await?;
        sets.delete(&name, &DeleteParams::background()).await?;
        self.space.claim_is_gone(&claim).await
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

    pub(super) fn api(&self, object: Object) -> Api<DynamicObject> {
        let resource = match object {
            Object::Claim(_) => ApiResource::erase::<PersistentVolumeClaim>(&()),
            Object::ConfigMap(_) => ApiResource::erase::<ConfigMap>(&()),
            Object::Pod(_) => ApiResource::erase::<Pod>(&()),
            Object::Set(_) => ApiResource::erase::<StatefulSet>(&()),
            Object::Volume(_) => ApiResource::erase::<PersistentVolume>(&()),
        };
        match object {
            Object::Volume(_) => Api::all_with(self.client.clone(), &resource),
            _ => Api::namespaced_with(self.client.clone(), &self.space.name, &resource),
        }
    }
}
