//! Publishes Events about objects.

use crate::cluster::api::within;
use crate::objects::{Kind, ObjectName};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Time limit of writing one Event.
const CALL_LIMIT: Duration = Duration::from_secs(4);
/// Maximum length of an Event note that the API server accepts.
const NOTE_LIMIT: usize = 1000;
/// Maximum number of concurrent Event writes: Events about a thousand objects must not delay other
/// writes.
const IN_FLIGHT: usize = 8;

/// The content of an Event about an object.
#[derive(Clone, Debug)]
pub struct Announcement {
    /// Why the Event is published, in PascalCase. Reasons are never renamed.
    pub reason: &'static str,
    /// The action that was carried out or attempted, in PascalCase; the reason itself if there was
    /// no action.
    pub action: &'static str,
    /// Whether the Event has the type Warning.
    pub warning: bool,
    /// The message of the Event: one or two sentences.
    pub note: String,
    /// The other object that the Event is about.
    pub related: Option<ObjectReference>,
}

/// The object that an Event is about.
#[derive(Clone, Debug)]
pub struct Regarding {
    /// The kind of the object.
    pub kind: Kind,
    /// The name of the object.
    pub name: ObjectName,
    /// The uid of the object.
    pub uid: Box<str>,
}

/// Publishes Events with Volume Warden as the reporting controller.
pub(crate) struct Events {
    client: Client,
    reporter: Reporter,
    /// Counts Events that differ only in their notes as one Event with the first note.
    recorder: Recorder,
    in_flight: Semaphore,
}

impl Events {
    pub(crate) fn new(client: Client) -> Self {
        let reporter = Reporter {
            controller: "volume-warden.dev/volume-warden".into(),
            instance: None,
        };
        Self {
            recorder: Recorder::new(client.clone(), reporter.clone()),
            client,
            reporter,
            in_flight: Semaphore::new(IN_FLIGHT),
        }
    }

    /// Publishes a separate Event regardless of earlier Events, for causes that are reported once.
    /// Returns whether it was published.
    pub(crate) async fn publish(
        &self,
        regarding: &ObjectReference,
        announcement: &Announcement,
    ) -> bool {
        let recorder = Recorder::new(self.client.clone(), self.reporter.clone());
        self.publish_by(&recorder, regarding, announcement).await
    }

    /// Publishes an Event or increases the count of an equal one, for causes that are reported at
    /// every attempt.
    pub(crate) async fn count(&self, regarding: &ObjectReference, announcement: &Announcement) {
        self.publish_by(&self.recorder, regarding, announcement)
            .await;
    }

    /// Publishes an Event with this recorder. A failure is only logged.
    async fn publish_by(
        &self,
        recorder: &Recorder,
        regarding: &ObjectReference,
        announcement: &Announcement,
    ) -> bool {
        let mut note = announcement.note.clone();
        note.truncate(note.floor_char_boundary(NOTE_LIMIT));
        let event = Event {
            type_: if announcement.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: announcement.reason.into(),
            note: Some(note),
            action: announcement.action.into(),
            secondary: announcement.related.clone(),
        };
        // The semaphore is never closed, so acquiring a permit cannot fail.
        let _permit = self.in_flight.acquire().await;
        let published = recorder.publish(&event, regarding);
        let published = within(CALL_LIMIT, published).await;
        if let Err(error) = &published {
            tracing::info!(object = regarding.name, %error, "the Event was not published");
        }
        published.is_ok()
    }
}
