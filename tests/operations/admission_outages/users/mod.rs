//! Objects and operations of ordinary users: claims, pods, volumes, StatefulSets and namespaces.

mod before;
mod claims;
mod namespaces;
mod pods;
mod recovery;
mod sets;
mod tenant;
mod volumes;

use crate::support::Space;
use anyhow::{Context, Result};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Namespace};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use std::fmt::Debug;

/// A namespace of users, and the other objects that they use.
pub struct Users {
    pub space: Space,
    sets: Api<StatefulSet>,
    namespaces: Api<Namespace>,
}

impl Users {
    /// Performs every operation, and checks that each succeeds.
    pub async fn perform_all_operations(&self) -> Result<()> {
        self.use_claims().await.context("claims")?;
        futures::try_join!(
            async { self.use_pods().await.context("pods") },
            async { self.use_volumes().await.context("volumes") },
            async { self.use_sets().await.context("sets") },
            async { self.use_namespaces().await.context("namespaces") },
        )
        .map(drop)
    }

    /// A name for a cluster-scoped object.
    fn cluster_scoped_name(&self, name: &str) -> String {
        format!("{}-{name}", self.space.name)
    }
}

/// Patches an existing object, and updates it, with retries after conflicts.
async fn patch_and_update<K>(api: &Api<K>, name: &str) -> Result<()>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let label = json!({"metadata": {"labels": {"patched": "yes"}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(&label))
        .await?;
    loop {
        let mut object = api.get(name).await?;
        object.labels_mut().insert("edited".into(), "yes".into());
        match api.replace(name, &PostParams::default(), &object).await {
            // Users expect conflicts with other writers.
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            result => return result.map(drop).context("update"),
        }
    }
}

/// Deletes all objects of one kind with the label, in one request.
async fn delete_collection<K>(api: &Api<K>, label: &str) -> Result<()>
where
    K: Clone + Debug + DeserializeOwned,
{
    let labelled = ListParams::default().labels(label);
    api.delete_collection(&DeleteParams::default(), &labelled)
        .await?;
    Ok(())
}
