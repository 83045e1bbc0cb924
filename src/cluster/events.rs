//! Events: what users are told about an object.

use super::{action::Target, client::within};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use std::time::Duration;

/// An Event is worth no longer wait.
const CALL_LIMIT: Duration = Duration::from_secs(4);
/// The API server takes no longer note.
const NOTE_LIMIT: usize = 1000;

/// Something that users should know about an object.
#[derive(Clone, Debug)]
pub struct Announcement {
    /// PascalCase, stable.
    pub reason: &'static str,
    /// What was done or tried, PascalCase; the reason itself where it was nothing.
    pub action: &'static str,
    /// Something is not as it should be.
    pub warning: bool,
    /// One or two sentences.
    pub note: String,
    /// The other object that it is about. Two events that differ in nothing but their notes are counted as one.
    pub related: Option<ObjectReference>,
}

/// Publishes events under our name.
pub(super) struct Events {
    recorder: Recorder,
}

impl Events {
    pub(super) fn new(client: Client) -> Self {
        let reporter = Reporter {
            controller: "volume-warden.dev/volume-warden".into(),
            instance: None,
        };
        Self {
            recorder: Recorder::new(client, reporter),
        }
    }

    /// That it fails is only logged.
    pub(super) async fn publish(&self, regarding: &Target<'_>, announcement: &Announcement) {
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
        let regarded = regarding.reference();
        let published = self.recorder.publish(&event, &regarded);
        if let Err(error) = within(CALL_LIMIT, published).await {
            tracing::info!(object = %regarding.name, %error, "the event was not published");
        }
    }
}
