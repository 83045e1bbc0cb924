//! A watch that resumes after its connection ends.

use anyhow::{Result, bail};
use futures::{TryStreamExt, stream::BoxStream};
use kube::{ResourceExt, api::WatchEvent};

/// The watch events of one connection.
pub type Events<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;

/// The timeout of a watch connection in seconds, slightly below the maximum that kube accepts.
pub const CONNECTION: u32 = 290;

/// Passes each event after `version` to `see` until `see` returns true. `open` starts a watch at a
/// `resourceVersion`.
pub async fn follow<K: ResourceExt, F>(
    mut version: String,
    open: impl Fn(String) -> F,
    mut see: impl FnMut(&WatchEvent<K>) -> bool,
) -> Result<()>
where
    F: Future<Output = kube::Result<Events<K>>>,
{
    loop {
        let mut events = open(version.clone()).await?;
        while let Some(event) = events.try_next().await? {
            if see(&event) {
                return Ok(());
            }
            match event {
                WatchEvent::Added(object)
                | WatchEvent::Modified(object)
                | WatchEvent::Deleted(object) => {
                    version = object.resource_version().unwrap_or_default();
                }
                WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => bail!("{status:?}"),
            }
        }
    }
}
