//! S10: the reason for which pvc-trash refuses a claim that requests the data of a deleted one is
//! true in the store, or was true when the cache of a replica may have shown it.

use super::{
    ledger::{Ledger, VolumeState},
    trash::{SECOND, annotation, is_kept, record, virtual_seconds},
};
use crate::json::{at, is_deleting, name, text, uid};
use serde_json::Value;
use volume_warden::objects::{
    MAX_TEXT,
    trash::{TrashRecord, UNDELETE},
    undelete_request::UndeleteRequest,
};

/// A review in which pvc-trash refused a claim.
struct Refusal<'a> {
    ledger: &'a Ledger,
    /// States of volumes since this virtual millisecond count, because a cache may have shown them.
    /// 0 if a watch may be late: then all states count.
    since: u64,
    review: &'a Value,
    /// The value of the annotation by which the claim requests the data.
    requested: &'a str,
    message: &'a str,
}

/// Returns why the refusal with this message is wrong, if the store does not support it. The review
/// began at the virtual millisecond `began`. A sentence that this function does not know is wrong.
pub fn wrong(ledger: &Ledger, began: u64, review: &Value, message: &str) -> Option<&'static str> {
    let late = ledger.plan.late() + SECOND;
    let claim = at(review, "/request/object");
    let requested = claim.and_then(|claim| annotation(claim, UNDELETE));
    let refusal = Refusal {
        ledger,
        since: if ledger.plan.is_calm() {
            began.saturating_sub(late)
        } else {
            0
        },
        review,
        requested: requested.unwrap_or_default(),
        message,
    };
    let says = |words: &str| message.contains(words);
    let (supported, otherwise) = if says(" is longer than ") {
        (refusal.is_long(), "the annotation is short")
    } else if says(" runs with --namespace=") {
        (
            refusal.is_elsewhere(),
            "it handles the namespace of the claim",
        )
    } else if says("no deleted claim ") {
        (!refusal.is_in_trash(), "the data is in the trash")
    } else if says(" is the name of a deleted claim ") {
        // The simulation names no volume like a claim.
        (false, "no volume has that name")
    } else if says("it is not known which of several deleted claims ") {
        (refusal.is_unordered(), "their order is known")
    } else if says(" is not Released yet") {
        (refusal.was_not_in_trash(), "the data is in the trash")
    } else if says(" exists, or is just being deleted, ") {
        (refusal.was_bound(), "no claim of the name was bound to it")
    } else if says(" claims could not be bound to the volume ") {
        (
            refusal.was_unbindable(),
            "fewer claims could not be bound to it",
        )
    } else {
        (false, "no invariant knows this reason")
    };
    (!supported).then_some(otherwise)
}

impl<'a> Refusal<'a> {
    fn namespace(&self) -> &'a str {
        text(self.review, "/request/namespace")
    }

    fn is_long(&self) -> bool {
        self.requested.len() > MAX_TEXT
    }

    /// Whether Volume Warden handles only the namespace in the message, and the claim is in another
    /// one.
    fn is_elsewhere(&self) -> bool {
        let handled = self.ledger.plan.start.namespace;
        handled.is_some_and(|only| {
            let named = self.message.contains(&format!("--namespace={only},"));
            named && only != self.namespace()
        })
    }

    /// Whether a volume that the claim requests has been in the trash for so long that the watch of
    /// every replica shows it. The volume is found in the cache, and only what the cache shows is
    /// confirmed by a live read: a user who restores a claim just after its deletion tries again.
    ///
    /// False if the namespace of a deleted claim of this name is not known: it may be the one that
    /// was deleted last.
    fn is_in_trash(&self) -> bool {
        let is_known = |record: &TrashRecord| record.claim.namespace_uid.is_some();
        self.records().all(|(_, record)| is_known(&record))
            && self.meant().any(|states| self.is_settled(states))
    }

    /// Whether the only state of the volume is that it is in the trash of the namespace.
    fn is_settled(&self, states: &[VolumeState]) -> bool {
        let [(began, Some(volume))] = states else {
            return false;
        };
        let Some(record) = self.record(volume) else {
            return false;
        };
        let recorded = record.claim.namespace_uid.as_deref();
        let live = self.ledger.get("namespaces", "", self.namespace());
        let settled = record
            .deleted_at
            .is_some_and(|at| virtual_seconds(at.as_second()) * SECOND < self.since);
        *began <= self.since
            && settled
            && is_kept(volume, &record)
            && live.is_some_and(|live| recorded == Some(uid(live)))
    }

    /// Whether a volume that the claim requests was kept and was not in the trash: it was Bound,
    /// reserved, or about to be Released.
    fn was_not_in_trash(&self) -> bool {
        self.records().any(|(volume, record)| {
            text(volume, "/spec/persistentVolumeReclaimPolicy") == "Retain"
                && !is_deleting(volume)
                && !is_kept(volume, &record)
        })
    }

    /// Whether the claim that the review is about, or an earlier one of its name, was bound to a
    /// volume that it requests.
    fn was_bound(&self) -> bool {
        let claim = text(self.review, "/request/name");
        self.records().any(|(volume, record)| {
            text(volume, "/status/phase") == "Bound"
                && text(volume, "/spec/claimRef/uid") == record.claim.uid
                && text(volume, "/spec/claimRef/name") == claim
                && text(volume, "/spec/claimRef/namespace") == self.namespace()
        })
    }

    fn was_unbindable(&self) -> bool {
        let mut records = self.records();
        records.any(|(_, record)| !record.is_restorable())
    }

    /// Whether the message names two volumes of deleted claims of the name, and neither the
    /// versions of these claims nor the times of their deletions show which one was deleted last.
    /// With a third volume, versions and times may contradict each other.
    fn is_unordered(&self) -> bool {
        let named = self.message.split("\"pv/").skip(1);
        let named: Vec<&str> = named.filter_map(|rest| rest.split('"').next()).collect();
        let [one, other] = named[..] else {
            return false;
        };
        let deletions = |of: &str| {
            let records = self.records();
            let own = records.filter(|(volume, record)| name(volume) == of && self.is_own(record));
            let own = own.map(|(volume, record)| (bound_at(volume), record.deleted_at));
            own.collect::<Vec<_>>()
        };
        let (one, other) = (deletions(one), deletions(other));
        let mut pairs = one
            .iter()
            .flat_map(|one| other.iter().map(move |other| (one, other)));
        let several = self.meant().count() > 2;
        pairs.any(|((version, at), (other_version, other_at))| {
            let equal = match (version, other_version) {
                (Some(version), Some(other_version)) => version == other_version,
                _ => at == other_at,
            };
            equal || several
        })
    }

    /// Whether the deleted claim was in a namespace of this name that existed.
    fn is_own(&self, record: &TrashRecord) -> bool {
        let recorded = record.claim.namespace_uid.as_deref();
        let removed = self.ledger.removed_since(self.since);
        let mut namespaces = self.ledger.all("namespaces").chain(removed);
        namespaces.any(|each| recorded == Some(uid(each)) && name(each) == self.namespace())
    }

    /// The states of each volume that the request may mean.
    fn meant(&self) -> impl Iterator<Item = &'a [VolumeState]> {
        let volumes = self.ledger.volumes_since(self.since);
        volumes.filter(|states| {
            let mut volumes = states.iter().filter_map(|(_, volume)| volume.as_deref());
            volumes.any(|volume| self.record(volume).is_some())
        })
    }

    /// The states that the request may mean, each with its record.
    fn records(&self) -> impl Iterator<Item = (&'a Value, TrashRecord)> {
        let states = self.ledger.volumes_since(self.since).flatten();
        states.filter_map(|(_, volume)| {
            let volume = volume.as_deref()?;
            Some((volume, self.record(volume)?))
        })
    }

    /// The record of the volume, if the request may mean its claim. A claim that names a volume
    /// means only that one.
    fn record(&self, volume: &Value) -> Option<TrashRecord> {
        let request = UndeleteRequest::parse(self.requested);
        let only = text(self.review, "/request/object/spec/volumeName");
        let record = record(volume)?;
        let claim = &record.claim;
        let is_named =
            request.volume() == Some(name(volume)) || request.claim() == Some(&*claim.name);
        let is_meant = is_named
            && claim.namespace == self.namespace()
            && (only.is_empty() || only == name(volume));
        is_meant.then_some(record)
    }
}

/// The version of the claim when the volume was bound to it; none if it is not known, or if the
/// volume is only reserved.
fn bound_at(volume: &Value) -> Option<u64> {
    let version = text(volume, "/spec/claimRef/resourceVersion");
    let bound = !text(volume, "/spec/claimRef/uid").is_empty();
    version.parse().ok().filter(|_| bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{faults::Faults, plan::Plan, replica::Start};
    use serde_json::json;
    use std::sync::Arc;
    use volume_warden::objects::trash::{MAX_UNBINDABLE, TRASH};
    use volume_warden_apiserver_model::Change;

    const UNKNOWN: &str = "no deleted claim \"data\" of the namespace ns is in the trash";
    const NOT_RELEASED: &str = "the volume of the deleted claim \"data\" is not Released yet, or";
    const EXISTS: &str = "the claim data exists, or is just being deleted, and the volume that";
    const UNBINDABLE: &str = "10 claims could not be bound to the volume of the deleted claim";
    const UNORDERED: &str = "it is not known which of several deleted claims \"data\" was deleted \
                             last. Name the volume: write \"pv/one\" or \"pv/two\"";

    /// The ledger of a history without faults, in which each volume is stored at its time.
    fn ledger(namespace: Option<&'static str>, volumes: &[(u64, Value)]) -> Ledger {
        let start = Start {
            namespace,
            ..Start::default()
        };
        let plan = Plan {
            start,
            faults: Faults::default(),
            disruptions: Vec::new(),
            ..Plan::new(1)
        };
        let mut ledger = Ledger::new(&plan);
        let mut store = |now: u64, plural: &'static str, object: &Value| {
            let change = Change {
                revision: 0,
                plural,
                namespace: String::new(),
                name: name(object).to_owned(),
                before: None,
                after: Some(Arc::new(object.clone())),
                user: "admin".into(),
            };
            ledger.apply(now, &change);
        };
        let namespace = json!({"metadata": {"name": "ns", "uid": "n"}});
        store(0, "namespaces", &namespace);
        for (now, volume) in volumes {
            store(*now, "persistentvolumes", volume);
        }
        ledger
    }

    /// The volume of the claim `data`, which was deleted after two seconds. Its claim had this
    /// version when it was bound, and these claims could not be bound to it.
    fn volume(name: &str, phase: &str, version: &str, unbindable: usize) -> Value {
        let record = json!({
            "policy": "Delete", "windowSeconds": 30, "deletedAt": "2026-01-01T00:00:02Z",
            "claim": {"namespace": "ns", "name": "data", "uid": name, "namespaceUid": "n"},
            "unbindable": vec!["u"; unbindable],
        });
        let claim = json!({
            "namespace": "ns", "name": "data", "uid": name, "resourceVersion": version,
        });
        json!({
            "metadata": {"name": name, "uid": name, "annotations": {TRASH: record.to_string()}},
            "spec": {"persistentVolumeReclaimPolicy": "Retain", "claimRef": claim},
            "status": {"phase": phase},
        })
    }

    /// Whether a refusal of the claim `data` with this message is wrong. It requests this text.
    fn refused(ledger: &Ledger, began: u64, requested: &str, message: &str) -> bool {
        let claim = json!({"metadata": {"annotations": {UNDELETE: requested}}});
        let request = json!({"namespace": "ns", "name": "data", "object": claim});
        wrong(ledger, began, &json!({"request": request}), message).is_some()
    }

    #[test]
    fn what_every_cache_shows_in_the_trash_is_not_refused() {
        let bound = (1_000, volume("one", "Bound", "7", 0));
        let released = (3_000, volume("one", "Released", "7", 0));
        let ledger = ledger(None, &[bound, released]);
        for message in [UNKNOWN, NOT_RELEASED, EXISTS] {
            assert!(!refused(&ledger, 4_000, "data", message), "{message}");
            assert!(refused(&ledger, 10_000, "data", message), "{message}");
        }
        assert!(!refused(&ledger, 10_000, "pvc/other", UNKNOWN));
        assert!(refused(&ledger, 10_000, "pv/one", UNKNOWN));
        assert!(refused(&ledger, 4_000, "pvc/other", NOT_RELEASED));
    }

    #[test]
    fn if_a_watch_may_be_late_every_earlier_state_counts() {
        let bound = (1_000, volume("one", "Bound", "7", 0));
        let released = (3_000, volume("one", "Released", "7", 0));
        let mut ledger = ledger(None, &[bound, released]);
        ledger.plan.faults.lost = 1;
        for message in [UNKNOWN, NOT_RELEASED, EXISTS] {
            assert!(!refused(&ledger, 90_000, "data", message), "{message}");
        }
        assert!(refused(&ledger, 90_000, "data", UNBINDABLE));
    }

    #[test]
    fn only_an_unknown_order_is_a_reason_to_name_the_volume() {
        let two = |versions: [&str; 2]| {
            let [one, two] = versions;
            let one = (3_000, volume("one", "Released", one, 0));
            let two = (3_000, volume("two", "Released", two, 0));
            ledger(None, &[one, two])
        };
        assert!(!refused(&two(["", "9"]), 10_000, "data", UNORDERED));
        assert!(refused(&two(["7", "9"]), 10_000, "data", UNORDERED));
        let one = ledger(None, &[(3_000, volume("one", "Released", "", 0))]);
        assert!(refused(&one, 10_000, "data", UNORDERED));
    }

    #[test]
    fn a_reason_is_compared_with_the_claim_the_flags_and_the_record() {
        let none = ledger(None, &[]);
        let long = "the annotation is longer than 253 bytes: write the name";
        assert!(refused(&none, 0, "data", long));
        assert!(!refused(&none, 0, &"d".repeat(MAX_TEXT + 1), long));
        let flag = "Volume Warden runs with --namespace=other, so it restores";
        for (namespace, wrong) in [(None, true), (Some("ns"), true), (Some("other"), false)] {
            assert_eq!(refused(&ledger(namespace, &[]), 0, "data", flag), wrong);
        }
        for (unbindable, wrong) in [(MAX_UNBINDABLE, false), (MAX_UNBINDABLE - 1, true)] {
            let volume = (3_000, volume("one", "Released", "7", unbindable));
            let ledger = ledger(None, &[volume]);
            assert_eq!(refused(&ledger, 10_000, "data", UNBINDABLE), wrong);
        }
        assert!(refused(&none, 0, "data", "the volume is not wanted"));
    }
}
