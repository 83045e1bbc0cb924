//! Events about an object.

use crate::why::{Object, Selection, World};
use k8s_openapi::{api::core::v1::Event, jiff::Timestamp};

/// The latest Event of that reason about whatever has that name, if there is one; nothing where they are not known.
pub(super) fn latest(world: &World, object: &Object, reason: &str) -> Option<Option<Event>> {
    latest_of(world, object, None, reason)
}

/// The same, and not about an earlier object of that name: its Events outlive it.
pub(super) fn latest_of(
    world: &World,
    object: &Object,
    uid: Option<&str>,
    reason: &str,
) -> Option<Option<Event>> {
    let uid = uid.map_or_else(String::new, |uid| format!(",involvedObject.uid={uid}"));
    let fields = format!(
        "involvedObject.kind={},involvedObject.name={}{uid}",
        object.kind, object.name.name
    );
    let selection = Selection {
        labels: "",
        fields: &fields,
    };
    // Events about what has no namespace are in `default`.
    let namespace = Some(object.namespace_name()).filter(|namespace| !namespace.is_empty());
    let events = world
        .list::<Event>(namespace.unwrap_or("default"), selection)
        .found()?;
    let of_reason = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some(reason));
    Some(of_reason.max_by_key(|event| last(event)).cloned())
}

/// When the Event was first observed.
pub(super) fn since(event: &Event) -> Option<Timestamp> {
    let first = event.first_timestamp.as_ref().map(|time| time.0);
    first.or(event.event_time.as_ref().map(|time| time.0))
}

/// Its note, with an end.
pub(super) fn sentence(event: &Event) -> String {
    let note = event
        .message
        .as_deref()
        .unwrap_or("it did not say why")
        .trim();
    format!("{}.", note.trim_end_matches('.'))
}

pub(super) fn last(event: &Event) -> Option<Timestamp> {
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    last.or_else(|| since(event))
}
