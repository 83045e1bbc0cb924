//! Explains namespaces that Kubernetes has deleted. The Events on Volume Warden's Lease say whether
//! the storage backend still has them.
//!
//! A user who may create Events in a namespace can write any text into `involvedObject`, which the
//! API server does not validate, and any time. So an Event counts only if it is in the namespace of
//! a Lease of Volume Warden that exists, and about this Lease; a command contains the name of the
//! Lease, which the API server has validated.

use crate::{
    components::namespace_gc::{
        NamespaceGc, Notices,
        reasons::{DELETE_FAILED, DELETED, NOT_EMPTY},
    },
    why::{
        Answer, Cause, Code, Evidence, LiveReads, Lookup, Object, Selection,
        explain::{controllers, events},
    },
};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Event};
use kube::ResourceExt;

/// Explains that the namespace is still in the storage backend, or could not be deleted there, if
/// its latest Event says so. Otherwise the namespace is absent.
pub(super) fn explain(reads: &LiveReads, object: &Object) -> Lookup<Answer> {
    let selection = Selection {
        labels: "",
        fields: "involvedObject.kind=Lease",
    };
    // The Events are listed in all namespaces, because the Lease of Volume Warden may be in any.
    let events = match reads.list::<Event>("", selection) {
        Lookup::Found(events) => events,
        Lookup::Absent => return Lookup::Absent,
        Lookup::Unread => return Lookup::Unread,
    };
    let about: Vec<_> = about(&events, &object.name.name).collect();
    if about.is_empty() {
        return Lookup::Absent;
    }
    let Some(leases) = controllers::own_leases(reads, &NamespaceGc) else {
        return Lookup::Unread;
    };
    match latest(&about, &leases) {
        Some((event, lease)) if event.reason.as_deref() != Some(DELETED) => {
            let state = match event.reason.as_deref() {
                Some(NOT_EMPTY) => "deleted from Kubernetes, but still in the storage backend",
                _ => {
                    "deleted from Kubernetes, but not confirmed as deleted from the storage backend"
                }
            };
            let answer = Answer::of(object, state).since(events::since(event));
            Lookup::Found(answer.because([cause(event, lease)]))
        }
        _ => Lookup::Absent,
    }
}

/// The Events that report on the deletion of the namespace from the storage backend.
fn about<'a>(events: &'a [Event], namespace: &str) -> impl Iterator<Item = &'a Event> {
    let about = Notices::beginning(namespace);
    events.iter().filter(move |event| {
        let reason = event.reason.as_deref().unwrap_or_default();
        let note = event.message.as_deref().unwrap_or_default();
        [DELETED, NOT_EMPTY, DELETE_FAILED].contains(&reason) && note.starts_with(&*about)
    })
}

/// The latest of the Events that are about one of these Leases, and that Lease.
fn latest<'a, 'b>(events: &[&'a Event], leases: &'b [Lease]) -> Option<(&'a Event, &'b Lease)> {
    let of_lease = events.iter().filter_map(|event| {
        let lease = leases.iter().find(|lease| is_about(event, lease))?;
        Some((*event, lease))
    });
    of_lease.max_by_key(|(event, _)| events::last(event))
}

fn is_about(event: &Event, lease: &Lease) -> bool {
    let (about, metadata) = (&event.involved_object, &lease.metadata);
    about.kind.as_deref() == Some("Lease")
        && event.metadata.namespace == metadata.namespace
        && about.namespace == metadata.namespace
        && about.name == metadata.name
        && (about.uid.is_none() || about.uid == metadata.uid)
}

fn cause(event: &Event, lease: &Lease) -> Cause {
    let namespace = lease.namespace().unwrap_or_default();
    let object = Object::new("Lease", "lease", &namespace, &lease.name_any());
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
            "metadata": {"namespace": "system"}, "reason": reason,
            "involvedObject": {"kind": "Lease", "namespace": "system", "name": "warden", "uid": "l"},
            "message": format!("namespace {namespace} is one that Kubernetes does not have"),
            "eventTime": format!("2026-01-01T00:{minute:02}:00.000000Z"),
        });
        serde_json::from_value(event).expect("an event")
    }

    /// The reason of the latest Event about the namespace `shop` and the Lease `system/warden`.
    fn reason_of(events: &[Event]) -> Option<&str> {
        let metadata = json!({"namespace": "system", "name": "warden", "uid": "l"});
        let lease: Lease = serde_json::from_value(json!({"metadata": metadata})).expect("a Lease");
        let about: Vec<_> = about(events, "shop").collect();
        let (event, _) = latest(&about, &[lease])?;
        event.reason.as_deref()
    }

    #[test]
    fn the_latest_event_about_the_namespace_counts() {
        let events = [
            event(NOT_EMPTY, 1, "shop"),
            event(DELETED, 3, "shop"),
            event(DELETE_FAILED, 2, "shop"),
            event(NOT_EMPTY, 4, "shop-2"),
            event("TooManyOrphans", 5, "shop"),
        ];
        assert_eq!(reason_of(&events), Some(DELETED));
        assert_eq!(reason_of(&events[..1]), Some(NOT_EMPTY));
        assert_eq!(reason_of(&events[3..]), None);
    }

    /// The API server accepts each of these Events from a user who may create Events in some
    /// namespace.
    #[test]
    fn an_event_that_is_not_about_the_lease_does_not_count() {
        let genuine = event(DELETED, 1, "shop");
        let later = event(NOT_EMPTY, 59, "shop");
        let both = [genuine.clone(), later.clone()];
        assert_eq!(reason_of(&both), Some(NOT_EMPTY));
        for forgery in [
            json!({"involvedObject": {"kind": "Pod"}}),
            json!({"involvedObject": {"name": "x; id #"}}),
            json!({"involvedObject": {"uid": "other"}}),
            json!({"involvedObject": {"namespace": "shop"}}),
            json!({"metadata": {"namespace": "shop"}}),
        ] {
            let mut forged = serde_json::to_value(&later).expect("an event");
            json_patch::merge(&mut forged, &forgery);
            let forged = serde_json::from_value(forged).expect("an event");
            let both = [genuine.clone(), forged];
            assert_eq!(reason_of(&both), Some(DELETED), "{forgery}");
        }
    }
}
