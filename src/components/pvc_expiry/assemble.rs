//! Builds the component pvc-expiry from its options and the shared parts.

use super::{
    NAME, caches::Caches, confirm::Live, metrics, options::Options, reconcile::PvcExpiryReconciler,
};
use crate::{
    cluster::{DEFAULT_CALL_TIMEOUT, Feeds, HourlyLimit, WorkQueue, server_time},
    component::{Component, Parts, Shared},
    objects::{Kind, ObjectName},
};
use clap::{Args as _, Command};
use futures::future::BoxFuture;
use kube::Client;
use std::sync::Arc;

/// The component `pvc-expiry`: deletes claims that no pod has used for a long time.
pub struct PvcExpiry;

/// The kinds that the component watches. The observation, the time during which this replica sees
/// which claims are used, begins when the first list of each kind is complete.
const WATCHES: [Kind; 4] = [
    Kind::Pod,
    Kind::PersistentVolumeClaim,
    Kind::PersistentVolume,
    Kind::StorageClass,
];

impl Component for PvcExpiry {
    fn name(&self) -> &'static str {
        NAME
    }

    fn runs_by_default(&self) -> bool {
        false
    }

    fn flags(&self, run: Command) -> Command {
        Options::augment_args(run)
    }

    fn build<'a>(&'a self, shared: &'a Shared) -> BoxFuture<'a, anyhow::Result<Parts>> {
        Box::pin(async { Ok(parts(shared, shared.options::<Options>()?)) })
    }
}

fn parts(shared: &Shared, options: Options) -> Parts {
    let (observation, clock) = (shared.observation.clone(), shared.clock.clone());
    let excluded = shared.excluded.clone();
    let caches = Caches::new(&shared.feeds, observation, clock, excluded);
    for kind in WATCHES {
        let (observation, clock) = (caches.observation.clone(), caches.clock.clone());
        shared.feeds.during_outage(kind, move |missed| {
            observation.interrupt(missed, clock.timestamp());
        });
    }
    let mut parts = Parts::watching(&WATCHES);
    let queue = Arc::new(WorkQueue::default());
    let client = shared.client.clone();
    let observe = observe(shared.feeds.clone(), client, caches.clone(), queue.clone());
    let stop = shared.stop.clone();
    parts.tasks.push(Box::pin(async move {
        stop.run_until_cancelled(observe).await;
        stop.cancelled().await;
    }));
    let reconciler = PvcExpiryReconciler {
        live: Live::new(
            &shared.metrics,
            &shared.client,
            options.expiry_references,
            shared.namespace.as_deref(),
        ),
        caches,
        apply: shared.apply.clone(),
        limit: HourlyLimit::new(options.expiry_max_deletions),
        first_evaluations: Default::default(),
        named: Default::default(),
        reported: Arc::default(),
        announced: Arc::default(),
        unread: Arc::default(),
        classes: Arc::default(),
    };
    reconciler.listen(&queue);
    metrics::register(&shared.metrics, reconciler.caches.clone());
    parts.reconcile(shared, reconciler, queue);
    parts
}

/// Waits until the first list of each of the [`WATCHES`] is complete. Then begins the observation,
/// at the time of this process or of the API server, whichever is later, and enqueues every claim
/// that may expire: before, the rule lets none expire.
async fn observe(feeds: Feeds, client: Client, caches: Caches, queue: Arc<WorkQueue<ObjectName>>) {
    for kind in WATCHES {
        feeds.synced(kind).await;
    }
    let server = server_time(&client, DEFAULT_CALL_TIMEOUT).await.ok();
    let local = caches.clock.timestamp();
    caches.observation.begin(server.unwrap_or(local).max(local));
    let candidates = caches.candidates().into_iter();
    candidates.for_each(|(name, _)| queue.add(name));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        clock::Clock,
        cluster::{Excluded, Feed, Observation},
        telemetry::Metrics,
    };
    use http::header::DATE;
    use k8s_openapi::jiff::Timestamp;
    use kube::client::Body;
    use time::OffsetDateTime;

    /// A clock that is behind would lengthen the time during which no pod used a claim.
    #[tokio::test]
    async fn the_observation_begins_at_the_later_of_two_times() {
        let later = Timestamp::from_second(100).expect("a time");
        for (local, server) in [
            (50, Some("Thu, 01 Jan 1970 00:01:40 GMT")),
            (100, Some("Thu, 01 Jan 1970 00:00:50 GMT")),
            (100, None),
        ] {
            let service = tower::service_fn(move |_: http::Request<Body>| {
                let response = http::Response::builder().status(200);
                let response = match server {
                    Some(server) => response.header(DATE, server),
                    None => response,
                };
                let response = response.body(Body::from(b"{}".to_vec()));
                std::future::ready(Ok::<_, std::io::Error>(response.expect("a response")))
            });
            let feeds = Feeds {
                pods: Feed::filled(Vec::new()),
                claims: Feed::filled(Vec::new()),
                volumes: Feed::filled(Vec::new()),
                classes: Feed::filled(Vec::new()),
                ..Feeds::new(&Arc::new(Metrics::new()))
            };
            let local = OffsetDateTime::from_unix_timestamp(local).expect("a time");
            let (observation, excluded) = (
                Arc::<Observation>::default(),
                Excluded::by_label(&feeds, None),
            );
            let caches = Caches::new(&feeds, observation, Clock::new(move || local), excluded);
            let client = Client::new(service, "default");
            observe(feeds, client, caches.clone(), Arc::default()).await;
            assert_eq!(caches.observation.since(), Some(later), "{server:?}");
        }
    }
}
