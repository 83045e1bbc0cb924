//! S12: an Event that a claim does not get the data of a deleted one gives a reason that is true,
//! or was true at some time.
//!
//! A cache shows only what was in the store at some time. So a reason is compared with all states
//! of the volume in the history, or since the claim was created, and no fault and no delay matters.

use super::{
    Found,
    ledger::Ledger,
    trash::{SECOND, is_kept, record, virtual_seconds},
};
use crate::{
    json::{is_deleting, name, namespace, text, uid},
    replica::{SYSTEM_NAMESPACE, is_replica},
};
use bytes::Bytes;
use http::{Method, Request};
use serde_json::Value;
use volume_warden::{
    components::pvc_trash::reasons::CANNOT_RESTORE,
    objects::{saved_volume::PREFIX, trash::TrashRecord},
};

/// For how long, in milliseconds, a volume is reserved for a claim that is not Bound. Source:
/// `src/components/pvc_trash/undelete/binding.rs`.
const RESERVATION_TIMEOUT: u64 = 300_000;

/// An Event about a claim.
struct Notice<'a> {
    ledger: &'a Ledger,
    /// The virtual millisecond in which the Event is sent.
    now: u64,
    /// The last state of the claim.
    claim: &'a Value,
    /// The name of the volume whose data the claim requests.
    volume: &'a str,
}

/// Checks the reason in an Event that a client sends now. A sentence that this function does not
/// know is a violation.
pub fn check(ledger: &Ledger, client: &str, now: u64, request: &Request<Bytes>) -> Found {
    let is_event = request.method() == Method::POST && request.uri().path().contains("/events");
    if !is_replica(client) || !is_event {
        return None;
    }
    let event: Value = serde_json::from_slice(request.body()).ok()?;
    if text(&event, "/reason") != CANNOT_RESTORE {
        return None;
    }
    let why = wrong(ledger, now, &event)?;
    let note = text(&event, "/note");
    let message = format!("{client} published an Event although {why}: {note}");
    Some(("S12", message))
}

/// Returns why the reason in the Event is wrong, if the store has never supported it.
fn wrong(ledger: &Ledger, now: u64, event: &Value) -> Option<&'static str> {
    let regarding = |field: &str| text(event, &format!("/regarding/{field}"));
    let (within, called, id) = (regarding("namespace"), regarding("name"), regarding("uid"));
    let present = ledger.get("persistentvolumeclaims", within, called);
    let present = present.filter(|claim| uid(claim) == id);
    let removed = ledger.removed(id).map(|(_, claim)| claim);
    let Some(claim) = present.or(removed) else {
        return Some("the claim never existed");
    };
    let notice = Notice {
        ledger,
        now,
        claim,
        volume: text(claim, "/spec/volumeName"),
    };
    let about = format!("claim {within}/{called} does not get the data that it requests: ");
    let reason = text(event, "/note").strip_prefix(about.as_str());
    let reason = reason.unwrap_or_default();
    let says = |words: &str| reason.starts_with(words);
    let (supported, otherwise) =
        if says("the volume in the trash belongs to a claim of another namespace, or ") {
            (notice.was_foreign(), "the claim may have the data")
        } else if says("it could not be bound to the volume within five minutes") {
            (
                notice.was_unbindable(),
                "that was not so, or not for so long",
            )
        } else if says("it is Bound to another volume") {
            (
                notice.was_returned() && text(claim, "/status/phase") == "Bound",
                "the volume was not returned, or the claim is not Bound",
            )
        } else if says("it is Lost") {
            (
                notice.was_returned() && text(claim, "/status/phase") == "Lost",
                "the volume was not returned, or the claim is not Lost",
            )
        } else if says("the volume has been purged") {
            (notice.was_purged(), "the volume was not purged")
        } else if says("the volume does not exist any more") {
            (!notice.exists(), "the volume exists")
        } else if says("the object of the volume was removed by force") {
            let repairable = !notice.exists() && notice.was_copied();
            (repairable, "the volume exists, or has no copy")
        } else {
            (false, "no invariant knows this reason")
        };
    (!supported).then_some(otherwise)
}

impl<'a> Notice<'a> {
    /// All states that the volume had with a record, each with that record.
    fn records(&self) -> impl Iterator<Item = (&'a Value, TrashRecord)> {
        let states = self.ledger.volume_states(self.volume, 0).iter();
        states.filter_map(|(_, volume)| {
            let volume = volume.as_deref()?;
            Some((volume, record(volume)?))
        })
    }

    /// Whether the volume was in the trash and not for the namespace of the claim. A namespace that
    /// exists now and has the recorded uid has existed since the record was written. A record
    /// without that uid is for no namespace.
    fn was_foreign(&self) -> bool {
        let within = namespace(self.claim);
        let live = self.ledger.get("namespaces", "", within);
        let is_own = |record: &TrashRecord| {
            let recorded = record.claim.namespace_uid.as_deref();
            record.claim.namespace == within && live.is_some_and(|live| recorded == Some(uid(live)))
        };
        self.records().any(|(volume, record)| {
            is_kept(volume, &record) && record.deleted_at.is_some() && !is_own(&record)
        })
    }

    /// Whether the volume was reserved for the claim for five minutes and returned to the trash,
    /// and the claim is not Bound.
    fn was_unbindable(&self) -> bool {
        let id = uid(self.claim);
        let waited = |record: &TrashRecord| {
            let reserved_at = record.reserved_at.map(|at| virtual_seconds(at.as_second()));
            let ended = |second: u64| second * SECOND + RESERVATION_TIMEOUT <= self.now + SECOND;
            record.reserved_for.as_deref() == Some(id) && reserved_at.is_some_and(ended)
        };
        text(self.claim, "/status/phase") == "Pending"
            && self.records().any(|(_, record)| waited(&record))
            && self.was_returned()
    }

    /// Whether the volume returned to the trash because the claim could not be bound to it.
    fn was_returned(&self) -> bool {
        let id = uid(self.claim);
        self.records()
            .any(|(_, record)| record.unbindable.iter().any(|each| each == id))
    }

    /// Whether the volume, with a record of the namespace of the claim, was to be deleted with its
    /// data.
    fn was_purged(&self) -> bool {
        self.records().any(|(volume, record)| {
            let ends = is_deleting(volume) || text(volume, "/status/phase") != "Bound";
            ends && text(volume, "/spec/persistentVolumeReclaimPolicy") != "Retain"
                && record.claim.namespace == namespace(self.claim)
        })
    }

    /// Whether the volume existed all the time since the claim was created. The Event rests on a
    /// live read after that, and a volume of the same name is never created again.
    fn exists(&self) -> bool {
        let since = self.ledger.created_at(uid(self.claim)).unwrap_or_default();
        let states = self.ledger.volume_states(self.volume, since);
        let known = states.first().is_some_and(|(began, _)| *began <= since);
        known && states.iter().all(|(_, volume)| volume.is_some())
    }

    /// Whether a cache may have shown the copy of the volume's object, because it has existed.
    fn was_copied(&self) -> bool {
        let mut states = self.ledger.volume_states(self.volume, 0).iter();
        let last = states.rfind(|(_, volume)| volume.is_some());
        let Some((_, Some(volume))) = last else {
            return false;
        };
        let copy = format!("{PREFIX}{}", uid(volume));
        let present = self.ledger.get("configmaps", SYSTEM_NAMESPACE, &copy);
        let mut removed = self.ledger.removed_since(0);
        present.is_some() || removed.any(|each| name(each) == copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{faults::Faults, plan::Plan};
    use serde_json::json;
    use std::sync::Arc;
    use volume_warden::objects::trash::TRASH;
    use volume_warden_apiserver_model::Change;

    const FOREIGN: &str = "the volume in the trash belongs to a claim of another namespace, or of";
    const UNBINDABLE: &str = "it could not be bound to the volume within five minutes. The volume";
    const TAKEN: &str = "it is Bound to another volume. The volume with that data is in the trash";
    const LOST: &str = "it is Lost. The volume is in the trash again. Delete the claim";
    const PURGED: &str = "the volume has been purged, which is final. Delete the claim";
    const ABSENT: &str = "the volume does not exist any more. Delete the claim";
    const FORCED: &str = "the object of the volume was removed by force. An administrator can";
    /// When the claims of these tests are deleted, in virtual milliseconds.
    const DELETED: u64 = 2_000;

    fn store(ledger: &mut Ledger, now: u64, plural: &'static str, object: &Value, stays: bool) {
        let object = Arc::new(object.clone());
        let change = Change {
            revision: 0,
            plural,
            namespace: namespace(&object).to_owned(),
            name: name(&object).to_owned(),
            before: Some(object.clone()),
            after: stays.then_some(object),
            user: "admin".into(),
        };
        ledger.apply(now, &change);
    }

    /// The ledger of a history without faults, with a claim that requests the data of this volume,
    /// which is in the trash.
    fn ledger(volume: &Value) -> Ledger {
        let plan = Plan {
            faults: Faults::default(),
            disruptions: Vec::new(),
            steps: Vec::new(),
            ..Plan::new(1)
        };
        let mut ledger = Ledger::new(&plan);
        let within = json!({"metadata": {"name": "ns", "uid": "n"}});
        store(&mut ledger, 0, "namespaces", &within, true);
        store(&mut ledger, DELETED, "persistentvolumes", volume, true);
        let claim = json!({
            "metadata": {"namespace": "ns", "name": "again", "uid": "2"},
            "spec": {"volumeName": "pv"}, "status": {"phase": "Pending"},
        });
        let claims = "persistentvolumeclaims";
        store(&mut ledger, DELETED + 1_000, claims, &claim, true);
        ledger
    }

    /// A volume in the trash of the namespace with this uid. `changes` are merged over its record.
    fn volume(namespace_uid: &str, changes: &Value) -> Value {
        let mut record = json!({
            "policy": "Delete", "windowSeconds": 30, "deletedAt": "2026-01-01T00:00:02Z",
            "claim": {"namespace": "ns", "name": "data", "uid": "1"},
        });
        record["claim"]["namespaceUid"] = namespace_uid.into();
        json_patch::merge(&mut record, changes);
        json!({
            "metadata": {"name": "pv", "uid": "v", "annotations": {TRASH: record.to_string()}},
            "spec": {"persistentVolumeReclaimPolicy": "Retain", "claimRef": {"uid": "1"}},
            "status": {"phase": "Released"},
        })
    }

    /// Whether this Event about the claim, sent at this virtual millisecond, is a violation.
    fn violates(ledger: &Ledger, now: u64, reason: &str) -> bool {
        let event = json!({
            "reason": CANNOT_RESTORE, "regarding": {"namespace": "ns", "name": "again", "uid": "2"},
            "note": format!("claim ns/again does not get the data that it requests: {reason}"),
        });
        let request = Request::post("/apis/events.k8s.io/v1/namespaces/ns/events");
        let request = request.body(event.to_string().into()).expect("a request");
        check(ledger, "replica-0.0", now, &request).is_some()
    }

    #[test]
    fn no_event_denies_a_claim_the_data_in_the_trash() {
        let kept = ledger(&volume("n", &json!({})));
        for reason in [
            FOREIGN,
            UNBINDABLE,
            TAKEN,
            LOST,
            PURGED,
            ABSENT,
            FORCED,
            "it is late",
        ] {
            assert!(violates(&kept, 60_000, reason), "{reason}");
        }
        let earlier = ledger(&volume("earlier", &json!({})));
        assert!(!violates(&earlier, 60_000, FOREIGN));
        let unknown = ledger(&volume("n", &json!({"claim": {"namespaceUid": null}})));
        assert!(!violates(&unknown, 60_000, FOREIGN));
    }

    #[test]
    fn a_claim_is_unbindable_after_five_minutes() {
        let reserved = json!({"reservedAt": "2026-01-01T00:00:04Z", "reservedFor": "2"});
        let mut ledger = ledger(&volume("n", &reserved));
        assert!(violates(&ledger, 304_000, UNBINDABLE), "it is reserved");
        let returned = volume("n", &json!({"unbindable": ["2"]}));
        store(&mut ledger, 5_000, "persistentvolumes", &returned, true);
        assert!(violates(&ledger, 60_000, UNBINDABLE));
        assert!(!violates(&ledger, 304_000, UNBINDABLE));
    }

    #[test]
    fn the_phase_of_a_claim_that_does_not_wait_any_more_is_right() {
        let mut ledger = ledger(&volume("n", &json!({"unbindable": ["2"]})));
        for (phase, reason) in [("Bound", TAKEN), ("Lost", LOST)] {
            assert!(violates(&ledger, 60_000, reason), "not yet {phase}");
            let claim = json!({
                "metadata": {"namespace": "ns", "name": "again", "uid": "2"},
                "spec": {"volumeName": "pv"}, "status": {"phase": phase},
            });
            let claims = "persistentvolumeclaims";
            store(&mut ledger, 60_000, claims, &claim, true);
            assert!(!violates(&ledger, 60_000, reason), "{phase}");
        }
    }

    #[test]
    fn a_purged_volume_has_the_policy_delete_and_is_not_bound() {
        for (phase, policy, wrong) in [
            ("Released", "Delete", false),
            ("Released", "Retain", true),
            ("Bound", "Delete", true),
        ] {
            let mut purged = volume("n", &json!({}));
            purged["spec"]["persistentVolumeReclaimPolicy"] = policy.into();
            purged["status"]["phase"] = phase.into();
            let ledger = ledger(&purged);
            assert_eq!(violates(&ledger, 60_000, PURGED), wrong, "{phase}");
        }
    }

    #[test]
    fn a_volume_that_existed_since_the_claim_was_created_is_not_absent() {
        let kept = volume("n", &json!({}));
        let mut ledger = ledger(&kept);
        ledger.plan.faults.lost = 1;
        assert!(violates(&ledger, 60_000, ABSENT), "a watch may be late");
        store(&mut ledger, 60_000, "persistentvolumes", &kept, false);
        assert!(!violates(&ledger, 60_000, ABSENT));
        assert!(violates(&ledger, 60_000, FORCED), "it has no copy");
        let copy = json!({"metadata": {
            "namespace": SYSTEM_NAMESPACE, "name": format!("{PREFIX}v"), "uid": "c",
        }});
        store(&mut ledger, 60_000, "configmaps", &copy, true);
        assert!(!violates(&ledger, 60_000, FORCED));
        store(&mut ledger, 61_000, "configmaps", &copy, false);
        assert!(!violates(&ledger, 61_100, FORCED), "a cache may show it");
    }
}
