//! Reads the Events about an object.

use super::quote;
use crate::why::{LiveReads, Object, Selection};
use k8s_openapi::{api::core::v1::Event, jiff::Timestamp};

/// The latest Event with this reason about the object with this uid, or `Some(None)` if there is
/// none. With a uid, Events about an earlier object of the same name, which outlive it, do not
/// count. None if the Events could not be read.
pub(super) fn latest(
    reads: &LiveReads,
    object: &Object,
    uid: Option<&str>,
    reason: &str,
) -> Option<Option<Event>> {
    latest_of(reads, object, uid, reason, |_| true)
}

/// The latest of these Events that `counts`, as [`latest`] returns it.
pub(super) fn latest_of(
    reads: &LiveReads,
    object: &Object,
    uid: Option<&str>,
    reason: &str,
    counts: impl Fn(&Event) -> bool,
) -> Option<Option<Event>> {
    let of_uid = uid.map_or_else(String::new, |uid| format!(",involvedObject.uid={uid}"));
    let fields = format!(
        "involvedObject.kind={},involvedObject.name={}{of_uid}",
        object.kind.name(),
        object.name.name
    );
    let selection = Selection {
        labels: "",
        fields: &fields,
    };
    // Events about cluster-scoped objects are in the namespace `default`.
    let namespace = Some(object.namespace_name()).filter(|namespace| !namespace.is_empty());
    let events = reads
        .list::<Event>(namespace.unwrap_or("default"), selection)
        .found()?;
    let of_reason = events.iter().filter(|event| {
        let has_reason = event.reason.as_deref() == Some(reason);
        has_reason && is_about(event, object, uid) && counts(event)
    });
    Some(of_reason.max_by_key(|event| last(event)).cloned())
}

fn is_about(event: &Event, object: &Object, uid: Option<&str>) -> bool {
    let about = &event.involved_object;
    about.kind.as_deref() == Some(object.kind.name())
        && about.name.as_deref() == Some(&*object.name.name)
        && (uid.is_none() || about.uid.as_deref() == uid)
}

/// When the Event was first observed.
pub(super) fn since(event: &Event) -> Option<Timestamp> {
    let first = event.first_timestamp.as_ref().map(|time| time.0);
    first.or(event.event_time.as_ref().map(|time| time.0))
}

/// The message of the Event, as [`quote::sentence`] quotes it.
pub(super) fn sentence(event: &Event) -> String {
    let message = event.message.as_deref();
    quote::sentence(message.unwrap_or("the Event has no message"))
}

pub(super) fn last(event: &Event) -> Option<Timestamp> {
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    last.or_else(|| since(event))
}
