//! Collects every version of the volumes of a class. The API server keeps old versions for little
//! more than a minute, so a task watches the volumes while the scenario runs.

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{
    Api, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::task::JoinHandle;
use volume_warden_controlplane::eventually;

/// The versions that the task has collected, and the error that ended it: `None` while it runs.
#[derive(Default)]
struct Collected {
    versions: Vec<PersistentVolume>,
    ended: Option<String>,
}

type Seen = Arc<Mutex<Collected>>;

/// The versions of the volumes of a class since [`Versions::follow`].
pub struct Versions {
    volumes: Api<PersistentVolume>,
    class: String,
    seen: Seen,
    task: JoinHandle<()>,
}

impl Versions {
    pub async fn follow(volumes: Api<PersistentVolume>, class: &str) -> Result<Self> {
        let present = volumes.list(&ListParams::default().limit(1)).await?;
        let began = present.metadata.resource_version.context("no version")?;
        let (seen, class) = (Seen::default(), class.to_owned());
        let collected = collect(volumes.clone(), class.clone(), began, seen.clone());
        let result = seen.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = collected.await {
                result.lock().ended = Some(format!("{error:#}"));
            }
        });
        Ok(Self {
            volumes,
            class,
            seen,
            task,
        })
    }

    /// Returns all versions so far, once the watch has delivered the current version of each
    /// volume.
    pub async fn all(&self) -> Result<Vec<PersistentVolume>> {
        let present = self.volumes.list(&ListParams::default()).await?.items;
        let of_class = |volume: &&PersistentVolume| is_of(volume, &self.class);
        let present: Vec<_> = present.iter().filter(of_class).collect();
        eventually("the watch has delivered all versions", async || {
            let versions = {
                let seen = self.seen.lock();
                ensure!(
                    seen.ended.is_none(),
                    "the watch has ended: {:?}",
                    seen.ended
                );
                seen.versions.clone()
            };
            ensure!(!versions.is_empty(), "no volume of the class was seen");
            for volume in &present {
                let version = (volume.uid(), volume.resource_version());
                let mut seen = versions.iter();
                let seen = seen.any(|seen| (seen.uid(), seen.resource_version()) == version);
                ensure!(seen, "{version:?} of {} was not seen", volume.name_any());
            }
            Ok(Some(versions))
        })
        .await
    }
}

impl Drop for Versions {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Collects versions until the watch fails.
async fn collect(
    volumes: Api<PersistentVolume>,
    class: String,
    mut version: String,
    seen: Seen,
) -> Result<()> {
    loop {
        let events = volumes.watch(&WatchParams::default(), &version).await?;
        let mut events = events.boxed();
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(volume)
                | WatchEvent::Modified(volume)
                | WatchEvent::Deleted(volume) => {
                    version = volume.resource_version().context("no version")?;
                    if is_of(&volume, &class) {
                        seen.lock().versions.push(volume);
                    }
                }
                WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                WatchEvent::Error(error) => bail!("{error:?}"),
            }
        }
    }
}

fn is_of(volume: &PersistentVolume, class: &str) -> bool {
    let spec = volume.spec.as_ref();
    spec.and_then(|spec| spec.storage_class_name.as_deref()) == Some(class)
}
