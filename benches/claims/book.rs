//! A watch that records when the state of each object changed.

use crate::{
    follow::{CONNECTION, follow},
    gone::Watched,
};
use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{
    Api, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};
use tokio::{sync::watch, task::JoinHandle};

const LIMIT: Duration = Duration::from_secs(600);
const MARK: &str = "volume-warden.dev/awaiting-pod";

/// The recorded states, by name.
pub type Pages<S> = HashMap<String, S>;

/// The records of one watch.
pub struct Book<S> {
    pages: watch::Receiver<Pages<S>>,
    task: JoinHandle<()>,
}

impl<S: Clone + Default + Send + Sync + 'static> Book<S> {
    /// Starts recording: `note` adds the state that an event shows to the record of its object.
    pub async fn open<K: Watched>(
        api: &Api<K>,
        note: impl Fn(&mut S, &K) + Send + Sync + 'static,
    ) -> Result<Self> {
        let there = api.list_metadata(&ListParams::default().limit(1)).await?;
        let version = there.metadata.resource_version.unwrap_or_default();
        let (writer, pages) = watch::channel(Pages::new());
        let api = api.clone();
        let open = move |version: String| {
            let api = api.clone();
            async move {
                let parameters = WatchParams::default().timeout(CONNECTION);
                Ok(api.watch(&parameters, &version).await?.boxed())
            }
        };
        let task = tokio::spawn(async move {
            let watched = follow(version, open, |event| {
                if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event {
                    writer.send_modify(|pages| {
                        note(pages.entry(object.name_any()).or_default(), object);
                    });
                }
                false
            });
            if let Err(error) = watched.await {
                eprintln!("the watch ended: {error:#}");
            }
        });
        Ok(Self { pages, task })
    }

    /// Waits until `wanted` is true for `count` records, and returns all records.
    pub async fn once(&mut self, count: usize, wanted: impl Fn(&S) -> bool) -> Result<Pages<S>> {
        let mut most = 0;
        let enough = self.pages.wait_for(|pages| {
            most = pages.values().filter(|page| wanted(page)).count();
            most >= count
        });
        let pages = match tokio::time::timeout(LIMIT, enough).await {
            Ok(pages) => Some(pages.context("the watch ended")?.clone()),
            Err(_) => None,
        };
        pages.with_context(|| format!("{most} of {count} after {LIMIT:?}"))
    }
}

impl<S> Drop for Book<S> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The states of a requested claim.
#[derive(Clone, Default)]
pub struct Birth {
    /// The time at which the watch showed the creation of the claim, and its resource version then.
    pub created: Option<(Instant, u64)>,
    /// The time at which the watch showed the claim with an owner and without the annotation.
    pub given: Option<Instant>,
}

impl Birth {
    /// Records the claims of a namespace.
    pub async fn book(claims: &Api<PersistentVolumeClaim>) -> Result<Book<Self>> {
        Book::open(claims, Self::note).await
    }

    fn note(&mut self, claim: &PersistentVolumeClaim) {
        let now = Instant::now();
        self.created.get_or_insert_with(|| (now, version(claim)));
        let marked = claim.annotations().contains_key(MARK);
        if !marked && !claim.owner_references().is_empty() {
            self.given.get_or_insert(now);
        }
    }
}

/// The resource version as a number. It is etcd's revision, which orders all writes to the cluster.
pub fn version(object: &impl ResourceExt) -> u64 {
    let version = object.resource_version().unwrap_or_default();
    version.parse().unwrap_or_default()
}
