//! Explains namespaces that Kubernetes has deleted. The Events on Volume Warden's Lease say whether
//! the storage backend still has them.

use crate::{
    components::namespace_gc::reasons::{DELETE_FAILED, DELETED, NOT_EMPTY},
    why::{Answer, Cause, Code, Evidence, Look, Object, Selection, World, explain::events},
};
use k8s_openapi::api::core::v1::Event;

/// Explains that the namespace is still in the storage backend, if its latest Event says so.
/// Otherwise the namespace is absent.
pub(super) fn explain(world: &World, object: &Object) -> Look<Answer> {
    let selection = Selection {
        labels: "",
        fields: "involvedObject.kind=Lease",
    };
    // The Events are listed in all namespaces, because the Lease of Volume Warden may be in any.
    let events = match world.list::<Event>("", selection) {
        Look::Found(events) => events,
        Look::Absent => return Look::Absent,
        Look::Unread => return Look::Unread,
    };
    match latest(&events, &object.name.name) {
        Some(event) if event.reason.as_deref() != Some(DELETED) => {
            let state = "gone from Kubernetes, and still in the storage backend";
            let answer = Answer::of(object, state).since(events::since(event));
            Look::Found(answer.because([cause(event)]))
        }
        _ => Look::Absent,
    }
}

/// The latest Event about the deletion of the namespace from the storage backend.
fn latest<'a>(events: &'a [Event], namespace: &str) -> Option<&'a Event> {
    let about = format!("namespace {namespace} is not in Kubernetes");
    let about = events.iter().filter(|event| {
        let reason = event.reason.as_deref().unwrap_or_default();
        let note = event.message.as_deref().unwrap_or_default();
        let of_lease = event.involved_object.kind.as_deref() == Some("Lease");
        of_lease
            && [DELETED, NOT_EMPTY, DELETE_FAILED].contains(&reason)
            && note.starts_with(&about)
    });
    about.max_by_key(|event| events::last(event))
}

fn cause(event: &Event) -> Cause {
    let lease = &event.involved_object;
    let object = Object::new(
        "Lease",
        "lease",
        lease.namespace.as_deref().unwrap_or_default(),
        lease.name.as_deref().unwrap_or_default(),
    );
    let reason = event.reason.as_deref().unwrap_or_default();
    let times = times(event);
    let sentence = format!("Volume Warden reports: {}", events::sentence(event));
    let evidence = Evidence::new(object.to_string(), format!("Event {reason}{times}"));
    let cause = Cause::new(
        Code::BackendNotEmpty,
        sentence,
        evidence.since(events::since(event)),
    );
    if reason == NOT_EMPTY {
        return cause.run(
            "kubectl get pv",
            "to see which volumes of the namespace's claims were kept; if their data is not needed, \
             delete it in the storage backend first",
        );
    }
    cause.run(
        object.describe(),
        "to see the later Events on the Lease; then check the storage backend, and Volume Warden's access to it",
    )
}

fn times(event: &Event) -> String {
    let series = event.series.as_ref().and_then(|series| series.count);
    match series.or(event.count) {
        Some(count) if count > 1 => format!(", {count} times"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(reason: &str, minute: u32, namespace: &str) -> Event {
        let event = json!({
            "metadata": {}, "involvedObject": {"kind": "Lease"}, "reason": reason,
            "message": format!("namespace {namespace} is not in Kubernetes, and so on"),
            "eventTime": format!("2026-01-01T00:{minute:02}:00.000000Z"),
        });
        serde_json::from_value(event).expect("an event")
    }

    #[test]
    fn what_was_told_last_of_that_namespace_counts() {
        let events = [
            event(NOT_EMPTY, 1, "shop"),
            event(DELETED, 3, "shop"),
            event(DELETE_FAILED, 2, "shop"),
            event(NOT_EMPTY, 4, "shop-2"),
            event("TooManyOrphans", 5, "shop"),
        ];
        let reason_of =
            |events: &[Event]| latest(events, "shop").and_then(|event| event.reason.clone());
        assert_eq!(reason_of(&events).as_deref(), Some(DELETED));
        assert_eq!(reason_of(&events[..1]).as_deref(), Some(NOT_EMPTY));
        assert_eq!(reason_of(&events[3..]), None);
        let mut other = event(NOT_EMPTY, 6, "shop");
        other.involved_object.kind = Some("Pod".to_owned());
        assert_eq!(reason_of(&[other]), None, "it is not about the Lease");
    }
}
