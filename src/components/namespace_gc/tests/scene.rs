//! A fixture: all of namespace-gc with a fake backend and a fake API server, in virtual time.

use super::{
    super::assemble::assemble,
    server::{Server, namespace},
    storage::Storage,
    *,
};
use crate::{
    awaited::Awaited,
    backend::Backend,
    clock::Clock,
    cluster::{
        Apply, Elector, Feed, Feeds, LatestTime, LeaseName, Reconciler, SharedList,
        test_server::answering,
    },
    component::Shared,
    objects::Namespace,
    telemetry::Metrics,
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3600);

pub(super) struct Scene {
    pub(super) storage: Arc<Storage>,
    pub(super) server: Arc<Server>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) remover: Arc<Remover>,
    feed: Arc<Feed<Namespace>>,
    lead: Arc<Awaited<Option<Instant>>>,
    stop: CancellationToken,
}

/// Options without periodic collections.
pub(super) fn by_events() -> Options {
    Options {
        interval: Duration::ZERO,
        ..Options::default()
    }
}

impl Scene {
    /// A namespace-gc that leads, in a cluster with two namespaces.
    pub(super) async fn new(options: Options) -> Self {
        let scene = Self::following(options);
        scene.gain_lead();
        sleep(SECOND).await;
        scene
    }

    pub(super) fn following(options: Options) -> Self {
        let (storage, server) = (Arc::new(Storage::default()), Arc::new(Server::default()));
        let metrics = Arc::new(Metrics::new());
        let called = server.clone();
        let client = answering(move |head, sent| called.answer(head, sent));
        let (lead, leadership) = Elector::for_test();
        let dry_run = options.dry_run;
        let apply = Apply::new(
            client.clone(),
            leadership.clone(),
            1,
            dry_run,
            metrics.clone(),
        );
        let shared = Shared {
            flags: Default::default(),
            namespace: None,
            system_namespace: "system".into(),
            exempt: vec![],
            excluded: Default::default(),
            controller_id: Default::default(),
            dry_run,
            lease: LeaseName {
                namespace: "system".into(),
                name: "lease".into(),
                identity: "us".into(),
                former: None,
                labels: Default::default(),
            },
            feeds: Feeds {
                namespaces: Feed::filled(vec![]),
                ..Feeds::new(&metrics)
            },
            live_pods: SharedList::new(metrics.clone(), &client),
            client,
            apply: Arc::new(apply),
            leadership: leadership.clone(),
            observation: Arc::default(),
            metrics: metrics.clone(),
            clock: Clock::system(),
            latest_time: LatestTime::new(Clock::system()),
            stop: CancellationToken::new(),
        };
        let stop = shared.stop.clone();
        let backend: Arc<dyn Backend> = storage.clone();
        let parts = assemble(&shared, &backend, Arc::new(options));
        let remover = parts.reconcile.remover.clone();
        let reconciler = Reconciler {
            reconcile: Arc::new(parts.reconcile),
            queue: parts.queue,
            leadership,
            again: Arc::default(),
            metrics: metrics.clone(),
        };
        tokio::spawn(reconciler.run(stop.clone()));
        parts
            .background
            .into_iter()
            .for_each(|task| drop(tokio::spawn(task)));
        let scene = Self {
            storage,
            server,
            metrics,
            remover,
            feed: shared.feeds.namespaces,
            lead,
            stop,
        };
        scene.create("default");
        scene.create("kube-system");
        scene
    }

    pub(super) fn gain_lead(&self) {
        let long = Instant::now() + HOUR * 1000;
        self.lead.replace(Some(long));
    }

    pub(super) fn lose_lead(&self) {
        self.lead.replace(None);
    }

    /// Creates a namespace in Kubernetes; the watch reports it.
    pub(super) fn create(&self, name: &str) {
        self.create_unseen(name);
        self.deliver(name, true);
    }

    /// Creates a namespace in Kubernetes; the watch does not report it.
    pub(super) fn create_unseen(&self, name: &str) {
        self.server.state().namespaces.insert(name.into());
    }

    pub(super) fn delete(&self, name: &str) {
        self.delete_unseen(name);
        self.deliver(name, false);
    }

    pub(super) fn delete_unseen(&self, name: &str) {
        self.server.state().namespaces.remove(name);
    }

    pub(super) fn deliver(&self, name: &str, exists: bool) {
        let wire = serde_json::from_value(namespace(name)).expect("a namespace");
        self.feed.deliver(wire, exists);
    }

    /// Restarts the watch with a list of the existing namespaces.
    pub(super) fn list_again(&self) {
        let names = self.server.state().namespaces.clone();
        let wires = names
            .iter()
            .map(|name| serde_json::from_value(namespace(name)));
        let wires = wires.collect::<Result<_, _>>().expect("namespaces");
        self.feed.list(wires);
    }

    /// Creates a namespace in the backend and in Kubernetes.
    pub(super) fn have(&self, name: &str) {
        self.storage.create(name);
        self.create(name);
    }

    /// Waits until this number of deletions has begun.
    pub(super) async fn deleted(&self, deletions: usize) {
        let begun = async {
            while self.storage.deletions() < deletions {
                sleep(SECOND / 100).await;
            }
        };
        let begun = tokio::time::timeout(HOUR, begun).await;
        begun.expect("nothing was deleted");
    }

    #[track_caller]
    pub(super) fn shows(&self, line: &str) {
        let text = self.metrics.text();
        assert!(
            text.contains(&format!("volume_warden_{line}\n")),
            "{line}: {text}"
        );
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
