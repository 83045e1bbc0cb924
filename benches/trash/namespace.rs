//! The deletion of a namespace with many claims.

use crate::{
    each::{AT_ONCE, each},
    stand::{LIMIT, RECORD, Stand, claim, is_in_trash, phase},
};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams, WatchEvent},
};
use serde_json::json;
use std::{collections::HashSet, time::Instant};
use volume_warden_controlplane::eventually_within;

const NAMESPACE: &str = "shop";

/// Seconds from the DELETE of the namespace.
pub struct Deleted {
    /// Until the last volume was Released.
    pub released: f64,
    /// Until the last volume was in the trash.
    pub in_trash: f64,
}

/// Creates a namespace with Bound claims of the class, and deletes the namespace. With `trash`,
/// first waits until the trash is enabled for their volumes.
pub async fn delete_namespace(
    stand: &Stand,
    class: &str,
    count: usize,
    trash: bool,
) -> Result<Deleted> {
    let namespaces: Api<Namespace> = Api::all(stand.cluster.client());
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    let claims = stand.claims(NAMESPACE);
    each(count, AT_ONCE, async |index| {
        let claim = claim(&format!("claim-{index:05}"), class)?;
        claims.create(&PostParams::default(), &claim).await?;
        Ok(())
    })
    .await?;
    all_bound(stand, count, trash).await?;
    let version = stand.version().await?;
    let started = Instant::now();
    let parameters = DeleteParams::default();
    namespaces.delete(NAMESPACE, &parameters).await?;
    let (mut released, mut in_trash) = (HashSet::new(), HashSet::new());
    let mut last_released = started;
    let end = stand.watch(version, |event| {
        if let WatchEvent::Modified(volume) = event {
            let name = volume.name_any();
            if phase(volume) == "Released" && released.insert(name.clone()) {
                last_released = Instant::now();
            }
            if is_in_trash(volume) {
                in_trash.insert(name);
            }
        }
        released.len() == count && (!trash || in_trash.len() == count)
    });
    let end = end.await?;
    Ok(Deleted {
        released: last_released.duration_since(started).as_secs_f64(),
        in_trash: end.duration_since(started).as_secs_f64(),
    })
}

/// Waits until all volumes are Bound, and with `trash`, until the trash is enabled for them.
async fn all_bound(stand: &Stand, count: usize, trash: bool) -> Result<()> {
    eventually_within(LIMIT, "all volumes are Bound", async || {
        let volumes = stand.volumes.list(&ListParams::default()).await?;
        let enabled = |recorded: bool| recorded == trash;
        let bound = volumes.iter().filter(|volume| {
            phase(volume) == "Bound" && enabled(volume.annotations().contains_key(RECORD))
        });
        let bound = bound.count();
        ensure!(bound == count, "{bound} of {count}");
        anyhow::Ok(())
    })
    .await
}
