//! A watch that records when the last object is deleted.

use crate::follow::{CONNECTION, follow};
use anyhow::{Result, ensure};
use futures::StreamExt;
use kube::{
    Api, Resource,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use std::{
    fmt::Debug,
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

/// The time limit: a throttled kube-controller-manager needs minutes.
const LIMIT: Duration = Duration::from_secs(1200);

/// A watch that counts deletions.
pub struct Gone(JoinHandle<Result<Instant>>);

impl Gone {
    /// Seconds from `started` until the last object was deleted.
    pub async fn after(self, started: Instant) -> Result<f64> {
        let last = tokio::time::timeout(LIMIT, self.0).await???;
        Ok(last.duration_since(started).as_secs_f64())
    }
}

/// The watched resource.
pub trait Watched: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static {}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static> Watched for K {}

/// Starts the watch. Fails unless exactly `count` objects exist.
pub async fn all_gone<K: Watched>(api: &Api<K>, count: usize) -> Result<Gone> {
    let there = api.list_metadata(&ListParams::default()).await?;
    let left = there.items.len();
    ensure!(left == count, "{left} of {count} objects exist");
    let version = there.metadata.resource_version.unwrap_or_default();
    Ok(Gone(tokio::spawn(last_to_go(api.clone(), version, left))))
}

async fn last_to_go<K: Watched>(api: Api<K>, version: String, mut left: usize) -> Result<Instant> {
    let open = move |version: String| {
        let api = api.clone();
        async move {
            let parameters = WatchParams::default().timeout(CONNECTION);
            let events = api.watch_metadata(&parameters, &version).await?;
            Ok(events.boxed())
        }
    };
    follow(version, open, |event| {
        left -= usize::from(matches!(event, WatchEvent::Deleted(_)));
        left == 0
    })
    .await?;
    Ok(Instant::now())
}
