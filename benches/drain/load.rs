//! The claims and pods of a run, and the watch that sees the last claim go.

use crate::Size;
use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use volume_warden_controlplane::Cluster;

const NAMESPACE: &str = "default";
const IN_FLIGHT: usize = 64;
const LIMIT: Duration = Duration::from_secs(900);

/// What the load is made of.
pub struct Space {
    pub claims: Api<PersistentVolumeClaim>,
    pods: Api<Pod>,
}

pub fn claim_name(index: usize) -> String {
    format!("claim-{index:05}")
}

fn pod_name(index: usize) -> String {
    format!("pod-{index:05}")
}

/// Creates everything: claims with the finalizer, a pod for each, and the pods around.
pub async fn fill(cluster: &Cluster, size: Size) -> Result<Space> {
    let client = cluster.client();
    let space = &Space {
        claims: Api::namespaced(client.clone(), NAMESPACE),
        pods: Api::namespaced(client, NAMESPACE),
    };
    each(size.claims, async |index| {
        let claim = serde_json::from_value(json!({
            "metadata": {"name": claim_name(index), "finalizers": ["kubernetes.io/pvc-protection"]},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}},
        }))?;
        space.claims.create(&PostParams::default(), &claim).await?;
        Ok(())
    })
    .await?;
    each(size.claims + size.others, async |index| {
        let volume = if index < size.claims {
            json!({"name": "data", "persistentVolumeClaim": {"claimName": claim_name(index)}})
        } else {
            json!({"name": "data", "emptyDir": {}})
        };
        let pod = serde_json::from_value(json!({
            "metadata": {"name": pod_name(index)},
            "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "main"}], "volumes": [volume]},
        }))?;
        space.pods.create(&PostParams::default(), &pod).await?;
        Ok(())
    })
    .await?;
    Ok(Space {
        claims: space.claims.clone(),
        pods: space.pods.clone(),
    })
}

/// Deletes the claims, then the pods that use them.
pub async fn delete(space: &Space, size: Size) -> Result<()> {
    each(size.claims, async |index| {
        Ok(space
            .claims
            .delete(&claim_name(index), &DeleteParams::default())
            .await
            .map(drop)?)
    })
    .await?;
    let now = &DeleteParams::default().grace_period(0);
    each(size.claims, async |index| {
        Ok(space.pods.delete(&pod_name(index), now).await.map(drop)?)
    })
    .await
}

async fn each(count: usize, call: impl AsyncFn(usize) -> Result<()>) -> Result<()> {
    stream::iter(0..count)
        .map(|index| call(index))
        .buffer_unordered(IN_FLIGHT)
        .try_collect()
        .await
}

/// A watch that counts the claims that go.
pub struct Gone(JoinHandle<Result<Instant>>);

impl Gone {
    /// Seconds from `started` until the last claim was gone.
    pub async fn after(self, started: Instant) -> Result<f64> {
        let last = tokio::time::timeout(LIMIT, self.0).await???;
        Ok(last.duration_since(started).as_secs_f64())
    }
}

/// Begins to watch; all claims are still there.
pub async fn all_gone(space: &Space, size: Size) -> Result<Gone> {
    let there = space.claims.list_metadata(&ListParams::default()).await?;
    ensure!(
        there.items.len() == size.claims,
        "{} of {} claims are there",
        there.items.len(),
        size.claims
    );
    let version = there.metadata.resource_version.unwrap_or_default();
    let claims = space.claims.clone();
    let mut left = size.claims;
    Ok(Gone(tokio::spawn(async move {
        let parameters = WatchParams::default().timeout(290);
        let mut version = version;
        while left > 0 {
            let mut events = claims.watch_metadata(&parameters, &version).await?.boxed();
            while let Some(event) = events.try_next().await? {
                match event {
                    WatchEvent::Deleted(claim) => {
                        left -= 1;
                        version = claim.metadata.resource_version.unwrap_or_default();
                        if left == 0 {
                            break;
                        }
                    }
                    WatchEvent::Error(status) => anyhow::bail!("{status:?}"),
                    _ => {}
                }
            }
        }
        Ok(Instant::now())
    })))
}
