//! The content of an Event, and the API object that it becomes.

use crate::clock::Clock;
use crate::objects::{CompactText, Identified, Kind, ObjectName};
use crate::plain::Plain;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1 as api},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    api::ObjectMeta,
    runtime::events::{Event, EventType},
};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The reporting controller of all Events.
pub(super) const REPORTER: &str = "volume-warden.dev/volume-warden";
/// Maximum length of an Event note, in bytes; the rest is cut off. The API server accepts 1024.
pub const NOTE_LIMIT: usize = 1000;

/// The content of an Event about an object.
#[derive(Clone, Debug)]
pub struct EventContent {
    /// Why the Event is published, in PascalCase. Reasons are never renamed.
    pub reason: &'static str,
    /// The action that was carried out or attempted, in PascalCase; the reason itself if there was
    /// no action.
    pub action: &'static str,
    /// Whether the Event has the type Warning.
    pub warning: bool,
    /// The message of the Event: one or two sentences.
    pub note: String,
    /// The other object that the Event is about, if there is one.
    pub related: Option<ObjectReference>,
}

impl EventContent {
    /// Creates an Event of the type Normal about one object only.
    pub fn normal(reason: &'static str, action: &'static str, note: String) -> Self {
        Self {
            reason,
            action,
            warning: false,
            note,
            related: None,
        }
    }

    /// Creates an Event of the type Warning about one object only.
    pub fn warning(reason: &'static str, action: &'static str, note: String) -> Self {
        Self {
            warning: true,
            ..Self::normal(reason, action, note)
        }
    }
}

/// The object to which an Event is attached, and with which `kubectl describe` shows it.
#[derive(Clone, Debug)]
pub struct Regarding {
    /// The kind of the object, from which the Event gets its apiVersion.
    pub kind: Kind,
    /// The namespace and name. Events about cluster-scoped objects are stored in `default`.
    pub name: ObjectName,
    /// The uid of the object, by which `kubectl describe` finds the Event.
    pub uid: CompactText,
}

impl Regarding {
    /// Names the object by its kind, name and uid.
    pub fn new(kind: Kind, name: &ObjectName, uid: impl Into<CompactText>) -> Self {
        Self {
            kind,
            name: name.clone(),
            uid: uid.into(),
        }
    }

    /// Names an object that was read.
    pub fn of<T: Identified>(name: &ObjectName, object: &T) -> Self {
        Self::new(T::API_KIND, name, object.uid())
    }
}

pub(super) fn type_of(event_content: &EventContent) -> &'static str {
    if event_content.warning {
        "Warning"
    } else {
        "Normal"
    }
}

pub(super) fn event(event_content: &EventContent) -> Event {
    Event {
        type_: if event_content.warning {
            EventType::Warning
        } else {
            EventType::Normal
        },
        reason: event_content.reason.into(),
        note: Some(note_of(event_content)),
        action: event_content.action.into(),
        secondary: event_content.related.clone(),
    }
}

impl EventContent {
    /// Shortens the note to [`NOTE_LIMIT`], so that a long text of the cluster is neither kept
    /// while the Event waits nor logged.
    pub(super) fn shortened(mut self) -> Self {
        let limit = self.note.floor_char_boundary(NOTE_LIMIT);
        self.note.truncate(limit);
        self.note.shrink_to_fit();
        self
    }
}

/// The note of the Event: plain text that the API server accepts.
fn note_of(event_content: &EventContent) -> String {
    let mut note = Plain(&event_content.note).to_string();
    note.truncate(note.floor_char_boundary(NOTE_LIMIT));
    note
}

/// Maximum length in bytes of the name of an object in the name of its Event, which has 17 more
/// characters and may have 253.
const OBJECT_LIMIT: usize = 236;

/// Whether the name of an Event, also of one that kube names, can contain the name of this object.
pub(super) fn is_short(regarding: &ObjectReference) -> bool {
    regarding.name.as_ref().map_or(0, String::len) <= OBJECT_LIMIT
}

/// The Event with a name that follows from its content.
pub(super) fn named(regarding: &ObjectReference, event_content: &EventContent) -> api::Event {
    // The keys of a new `DefaultHasher` are constant, so every replica computes the same name.
    let mut hasher = DefaultHasher::new();
    let note = note_of(event_content);
    (&regarding.uid, event_content.reason, note).hash(&mut hasher);
    event_named(regarding, event_content, hasher.finish())
}

/// The Event with a name that no earlier Event about the object has.
pub(super) fn separate(regarding: &ObjectReference, event_content: &EventContent) -> api::Event {
    let nanoseconds = Clock::system().timestamp().as_nanosecond();
    // The low 64 bits repeat after 584 years.
    event_named(regarding, event_content, nanoseconds as u64)
}

fn event_named(
    regarding: &ObjectReference,
    event_content: &EventContent,
    suffix: u64,
) -> api::Event {
    let object = regarding.name.as_deref().unwrap_or_default();
    let object = &object[..object.floor_char_boundary(OBJECT_LIMIT)];
    // The suffix follows a dot, and no part of a name may end with these characters.
    let object = object.trim_end_matches(['-', '.']);
    // Events about cluster-scoped objects are in the namespace `default`.
    let namespace = regarding.namespace.as_deref().unwrap_or("default");
    api::Event {
        action: Some(event_content.action.to_owned()),
        reason: Some(event_content.reason.to_owned()),
        event_time: Some(MicroTime(Clock::system().timestamp())),
        regarding: Some(regarding.clone()),
        related: event_content.related.clone(),
        note: Some(note_of(event_content)),
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(format!("{object}.{suffix:016x}")),
            ..ObjectMeta::default()
        },
        reporting_controller: Some(REPORTER.to_owned()),
        reporting_instance: Some(REPORTER.to_owned()),
        type_: Some(type_of(event_content).to_owned()),
        ..api::Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_event_is_one_that_the_api_server_accepts() {
        let long = format!("{}-{}", "a".repeat(OBJECT_LIMIT - 1), "b".repeat(16));
        for object in [long, "short".to_owned()] {
            let regarding = ObjectReference {
                name: Some(object),
                ..ObjectReference::default()
            };
            let event_content = EventContent::warning("A", "B", "c".to_owned());
            for event in [named, separate].map(|build| build(&regarding, &event_content)) {
                let name = event.metadata.name.expect("a name");
                assert!(name.len() <= 253 && !name.contains("-."), "{name}");
            }
        }
    }

    /// Two replicas publish the same Event with the same name, so the API server keeps one.
    #[test]
    fn the_name_of_an_event_follows_from_its_content() {
        let name = |uid: &str, note: &str| {
            let regarding = ObjectReference {
                name: Some("p".to_owned()),
                namespace: Some("ns".to_owned()),
                uid: Some(uid.to_owned()),
                ..ObjectReference::default()
            };
            let event_content = EventContent::warning("Reason", "Action", note.to_owned());
            let event = named(&regarding, &event_content);
            event.metadata.name.expect("a name")
        };
        let first = name("1", "a");
        assert_eq!(first, name("1", "a"));
        assert_eq!(first.len(), "p.".len() + 16, "{first}");
        assert_ne!(first, name("2", "a"), "an object of the same name");
        assert_ne!(first, name("1", "b"), "another cause");
    }
}
