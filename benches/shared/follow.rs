//! A watch that resumes after its connection ends.

use anyhow::{Result, bail};
use futures::{TryStreamExt, stream::BoxStream};
use kube::{ResourceExt, api::WatchEvent};

/// The events of one connection.
pub type Events<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;

/// The duration of a connection in seconds; kube permits little more.
pub const CONNECTION: u32 = 290;

/// Passes all events after `version` to `see` until it returns the end. `open` starts a connection
/// at a version.
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
