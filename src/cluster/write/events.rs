//! Publishes Events about objects.

use super::announcement::{Announcement, REPORTER, event, is_short, named, separate, type_of};
use super::fair_semaphore::FairSemaphore;
use crate::cluster::api::within;
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

/// Time limit of writing one Event.
const CALL_LIMIT: Duration = Duration::from_secs(4);
/// Maximum number of concurrent Event writes: Events about a thousand objects must not delay other
/// writes.
const IN_FLIGHT: usize = 8;
/// Maximum number of Events of one namespace that wait to be written. Further Events are dropped:
/// a tenant can create thousands of objects that each cause an Event.
const WAITING: usize = 200;

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
    /// Returns whether it was published.
    pub(crate) async fn publish(
        &self,
        regarding: &ObjectReference,
        announcement: &Announcement,
    ) -> bool {
        let create = self.create(separate(regarding, announcement));
        self.in_turn(regarding, announcement, create).await
    }

    /// Publishes an Event once, also if several processes publish it: its name follows from the uid
    /// of the object, the reason and the note. The API server deletes Events after `--event-ttl`;
    /// then it may be published again. Returns whether it exists now.
    pub(crate) async fn publish_once(
        &self,
        regarding: &ObjectReference,
        announcement: &Announcement,
    ) -> bool {
        let create = async {
            match self.create(named(regarding, announcement)).await {
                Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
                created => created,
            }
        };
        self.in_turn(regarding, announcement, create).await
    }

    /// Publishes an Event, or increases the count of a recent one that differs at most in its
    /// note, for causes that are reported at every attempt. It does so in a separate task, because
    /// the caller must not wait for an API server that accepts no Events.
    ///
    /// The name that kube gives an Event is invalid if that of the object is nearly as long as a
    /// name may be. Each note about such an object is published once.
    pub(crate) fn count(self: &Arc<Self>, regarding: ObjectReference, announcement: Announcement) {
        let events = self.clone();
        self.counting.spawn(async move {
            if !is_short(&regarding) {
                events.publish_once(&regarding, &announcement).await;
                return;
            }
            let event = event(&announcement);
            let write = async {
                let _turn = events.turn(&regarding).lock().await;
                events.recorder.publish(&event, &regarding).await
            };
            events.in_turn(&regarding, &announcement, write).await;
        });
    }

    /// Waits until all Events of [`Self::count`] are published, dropped or have failed.
    pub(crate) async fn counted(&self) {
        self.counting.close();
        self.counting.wait().await;
    }

    async fn create(&self, event: api::Event) -> kube::Result<()> {
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let events: Api<api::Event> = Api::namespaced(self.client.clone(), namespace);
        let created = events.create(&PostParams::default(), &event).await;
        created.map(drop)
    }

    fn turn(&self, regarding: &ObjectReference) -> &Mutex<()> {
        let mut hasher = DefaultHasher::new();
        regarding.uid.hash(&mut hasher);
        &self.one_by_one[hasher.finish() as usize % IN_FLIGHT]
    }

    /// Writes an Event once it is the turn of the object's namespace. Returns whether the write
    /// succeeded; a failure is only logged. If [`WAITING`] Events of the namespace wait already, it
    /// drops the Event and returns false.
    async fn in_turn(
        &self,
        regarding: &ObjectReference,
        announcement: &Announcement,
        write: impl Future<Output = kube::Result<()>>,
    ) -> bool {
        let namespace = regarding.namespace.as_deref().unwrap_or_default().into();
        if self.in_flight.waiting(&namespace) >= WAITING {
            if let Some(suppressed) = self.dropped.check() {
                tracing::warn!(%namespace, suppressed, "an Event was dropped, because {WAITING} of \
                    its namespace wait already");
            }
            return false;
        }
        let _permit = self.in_flight.acquire(&namespace).await;
        let published = within(CALL_LIMIT, write).await;
        match &published {
            Ok(()) => {
                let (kind, reason) = (regarding.kind.as_deref(), announcement.reason);
                let event_type = type_of(announcement);
                tracing::debug!(kind, reason, event_type, "the Event is in the API server");
            }
            Err(error) => {
                tracing::info!(object = regarding.name, %error, "the Event was not published");
            }
        }
        published.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::write::announcement::NOTE_LIMIT;
    use futures::future::join_all;
    use kube::client::Body;
    use serde_json::json;
    use std::sync::Mutex;
    use tokio::time::sleep;

    /// Events, each with the namespace to which it was written.
    type Written = Arc<Mutex<Vec<(String, serde_json::Value)>>>;

    /// An API server that takes 10 ms for each Event, and the Events in order.
    fn api() -> (Client, Written) {
        let written = Written::default();
        let log = written.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let namespace = request.uri().path().split('/').nth(5).expect("a namespace");
            let (namespace, log) = (namespace.to_owned(), log.clone());
            async move {
                sleep(Duration::from_millis(10)).await;
                let body = request.into_body().collect_bytes().await.expect("a body");
                let event = serde_json::from_slice(&body).expect("an Event");
                log.lock().expect("lock").push((namespace, event));
                let answer = http::Response::builder().status(201).body(Body::from(
                    br#"{"metadata": {"name": "e"}, "eventTime": null}"#.to_vec(),
                ));
                answer.map_err(std::io::Error::other)
            }
        });
        (Client::new(service, "default"), written)
    }

    fn about(namespace: &str) -> ObjectReference {
        ObjectReference {
            kind: Some("Pod".to_owned()),
            name: Some("p".to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectReference::default()
        }
    }

    fn announcement(note: &str) -> Announcement {
        Announcement {
            reason: "Reason",
            action: "Action",
            warning: true,
            note: note.to_owned(),
            related: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_note_is_one_line_and_bounded() {
        let (client, written) = api();
        let events = Events::new(client);
        for note in ["a\n\u{1b}[2Jb", &"\u{7}".repeat(NOTE_LIMIT)] {
            assert!(events.publish(&about("ns"), &announcement(note)).await);
        }
        let written = written.lock().expect("lock");
        let [(_, short), (_, long)] = &written[..] else {
            unreachable!("two Events");
        };
        assert_eq!(short["note"], "a\\n\\u{1b}[2Jb");
        assert_eq!(long["note"].as_str().map(str::len), Some(NOTE_LIMIT));
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_about_an_object_with_a_long_name_has_a_valid_name() {
        let (client, written) = api();
        let events = Arc::new(Events::new(client));
        let regarding = ObjectReference {
            name: Some("n".repeat(253)),
            ..about("ns")
        };
        events.count(regarding.clone(), announcement("a"));
        events.counted().await;
        assert!(events.publish(&regarding, &announcement("b")).await);
        let written = written.lock().expect("lock");
        assert_eq!(written.len(), 2);
        for (_, event) in written.iter() {
            let name = event["metadata"]["name"].as_str().expect("a name");
            assert!(name.len() <= 253, "{name}");
        }
    }

    /// An Event that exists counts as published; any other conflict does not.
    #[tokio::test(start_paused = true)]
    async fn an_event_that_another_replica_published_exists() {
        for (reason, published) in [("AlreadyExists", true), ("Conflict", false)] {
            let status = json!({"kind": "Status", "code": 409, "reason": reason, "message": "no"});
            let service = tower::service_fn(move |_: http::Request<Body>| {
                let body = Body::from(status.to_string().into_bytes());
                let response = http::Response::builder().status(409).body(body);
                async move { response.map_err(std::io::Error::other) }
            });
            let events = Events::new(Client::new(service, "default"));
            let exists = events.publish_once(&about("ns"), &announcement("a")).await;
            assert_eq!(exists, published, "{reason}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn thousands_of_events_of_one_namespace_neither_wait_nor_delay_others() {
        let (client, written) = api();
        let events = Events::new(client);
        let announcement = announcement("a note");
        let many = std::iter::repeat_n("many", 5000).chain(["few"]);
        let published =
            many.map(async |namespace| events.publish(&about(namespace), &announcement).await);
        let published = join_all(published).await;
        let kept = published.iter().filter(|published| **published).count();
        assert_eq!(
            kept,
            IN_FLIGHT + WAITING + 1,
            "the others are reported lost"
        );
        tokio::time::advance(Duration::from_secs(60)).await;
        let left_out = (published.len() - kept - 1) as u64;
        assert_eq!(events.dropped.check(), Some(left_out), "one was logged");
        let written = written.lock().expect("lock");
        assert_eq!(written.len(), kept);
        let place = written.iter().position(|(namespace, _)| namespace == "few");
        assert!(
            place.is_some_and(|place| place < 3 * IN_FLIGHT),
            "{place:?}"
        );
    }
}
