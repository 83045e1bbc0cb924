//! Publishes Events about objects.

use super::event_content::{EventContent, REPORTER, event, is_short, named, separate, type_of};
use crate::cluster::api::{FairSemaphore, for_log, is_lasting_refusal, within};
use crate::telemetry::LogLimiter;
use k8s_openapi::api::{core::v1::ObjectReference, events::v1 as api};
use kube::{
    Api, Client,
    api::PostParams,
    runtime::events::{Recorder, Reporter},
};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

/// Time limit of one attempt to write an Event.
const CALL_LIMIT: Duration = Duration::from_secs(4);
/// Number of attempts to create an Event, unless the API server would refuse it again. If the API
/// server is overloaded for some seconds, the Event is then neither lost nor repeated.
const ATTEMPTS: usize = 3;
/// Pause between two attempts, in which the Event holds no permit.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of concurrent Event writes: Events about a thousand objects must not delay other
/// writes.
const IN_FLIGHT: usize = 8;
/// Maximum number of Events of one namespace that wait to be written. Further Events are dropped:
/// a tenant can create thousands of objects that each cause an Event.
const WAITING: usize = 200;

/// What became of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Publication {
    /// It exists.
    Published,
    /// It may be published by a later attempt.
    Failed,
    /// No attempt can publish it: its namespace is being deleted.
    Impossible,
}

/// Publishes Events with Volume Warden as the reporting controller.
pub(crate) struct Events {
    client: Client,
    /// Counts Events that differ only in their notes as one Event with the first note, within six
    /// minutes.
    recorder: Recorder,
    /// The permits for Event writes, shared fairly between the namespaces of the objects.
    in_flight: Arc<FairSemaphore>,
    /// The tasks of [`Self::count`], which publish Events in the background.
    counting: TaskTracker,
    /// Locks, chosen by the object's uid, so that [`Self::count`] publishes the Events about one
    /// object one after the other: the recorder knows an equal Event only once it is published.
    one_by_one: [Mutex<()>; IN_FLIGHT],
    /// Limits the log lines about dropped Events to one a minute.
    dropped: LogLimiter,
}

impl Events {
    pub(crate) fn new(client: Client) -> Self {
        let reporter = Reporter {
            controller: REPORTER.into(),
            instance: None,
        };
        Self {
            recorder: Recorder::new(client.clone(), reporter),
            client,
            in_flight: FairSemaphore::new(IN_FLIGHT),
            counting: TaskTracker::new(),
            one_by_one: Default::default(),
            dropped: LogLimiter::default(),
        }
    }

    /// Publishes a separate Event regardless of earlier Events, for causes that are reported once.
    pub(crate) async fn publish(
        &self,
        regarding: &ObjectReference,
        event_content: &EventContent,
    ) -> Publication {
        let create = self.create(separate(regarding, event_content));
        self.unless_full(regarding, event_content, create).await
    }

    /// Publishes an Event once, also if several processes publish it: its name follows from the uid
    /// of the object, the reason and the note. The API server deletes Events after `--event-ttl`;
    /// then it may be published again.
    pub(crate) async fn publish_once(
        &self,
        regarding: &ObjectReference,
        event_content: &EventContent,
    ) -> Publication {
        let create = self.create(named(regarding, event_content));
        self.unless_full(regarding, event_content, create).await
    }

    /// Publishes an Event, or increases the count of a recent one that differs at most in its
    /// note, for causes that are reported at every attempt. It does so in a separate task, because
    /// the caller must not wait for an API server that accepts no Events.
    ///
    /// The name that kube gives an Event is invalid if that of the object is nearly as long as a
    /// name may be. Each note about such an object is published once.
    pub(crate) fn count(self: &Arc<Self>, regarding: ObjectReference, event_content: EventContent) {
        let events = self.clone();
        self.counting.spawn(async move {
            if !is_short(&regarding) {
                events.publish_once(&regarding, &event_content).await;
                return;
            }
            let event = event(&event_content);
            let write = async {
                let _turn = events.turn(&regarding).lock().await;
                events.recorder.publish(&event, &regarding).await
            };
            let write = events.attempt(&regarding, write);
            events.unless_full(&regarding, &event_content, write).await;
        });
    }

    /// Waits until all Events of [`Self::count`] are published, dropped or have failed.
    pub(crate) async fn counted(&self) {
        self.counting.close();
        self.counting.wait().await;
    }

    /// Creates the Event. If it is not known whether the API server stored it, tries again: because
    /// of its name, it is stored at most once.
    async fn create(&self, event: api::Event) -> kube::Result<()> {
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let events: Api<api::Event> = Api::namespaced(self.client.clone(), namespace);
        let (parameters, regarding) = (PostParams::default(), event.regarding.clone());
        let regarding = regarding.unwrap_or_default();
        let mut attempts = 1;
        loop {
            let create = events.create(&parameters, &event);
            match self.attempt(&regarding, create).await {
                Ok(_) => return Ok(()),
                Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => return Ok(()),
                Err(error) if attempts == ATTEMPTS || is_lasting_refusal(&error) => {
                    return Err(error);
                }
                Err(_) => attempts += 1,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Writes once it is the turn of the object's namespace, for at most [`CALL_LIMIT`].
    async fn attempt<T>(
        &self,
        regarding: &ObjectReference,
        write: impl Future<Output = kube::Result<T>>,
    ) -> kube::Result<T> {
        let _permit = self.in_flight.acquire(&namespace_of(regarding)).await;
        within(CALL_LIMIT, write).await
    }

    fn turn(&self, regarding: &ObjectReference) -> &Mutex<()> {
        let mut hasher = DefaultHasher::new();
        regarding.uid.hash(&mut hasher);
        &self.one_by_one[hasher.finish() as usize % IN_FLIGHT]
    }

    /// Writes an Event, unless [`WAITING`] Events of the object's namespace wait already. A failure
    /// is only logged.
    async fn unless_full(
        &self,
        regarding: &ObjectReference,
        event_content: &EventContent,
        write: impl Future<Output = kube::Result<()>>,
    ) -> Publication {
        let namespace = namespace_of(regarding);
        if self.in_flight.waiting(&namespace) >= WAITING {
            if let Some(suppressed) = self.dropped.check() {
                tracing::warn!(%namespace, suppressed, "an Event was dropped, because {WAITING} of \
                    its namespace wait already");
            }
            return Publication::Failed;
        }
        match write.await {
            Ok(()) => {
                let (kind, reason) = (regarding.kind.as_deref(), event_content.reason);
                let event_type = type_of(event_content);
                tracing::debug!(kind, reason, event_type, "the Event is in the API server");
                Publication::Published
            }
            Err(error) => {
                let shown = for_log(&error);
                tracing::info!(
                    object = regarding.name,
                    error = shown,
                    "the Event was not published"
                );
                if is_in_terminating_namespace(&error) {
                    Publication::Impossible
                } else {
                    Publication::Failed
                }
            }
        }
    }
}

/// The namespace whose turn the Event waits for; empty if the object is cluster-scoped.
fn namespace_of(regarding: &ObjectReference) -> Arc<str> {
    regarding.namespace.as_deref().unwrap_or_default().into()
}

/// Whether a creation was refused because the namespace is being deleted, which cannot be undone.
///
/// Source: `Lifecycle.Admit` in `k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle`.
fn is_in_terminating_namespace(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 403
        && causes
            .into_iter()
            .any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
