//! S12: which volume of the trash a review gives to a new claim.

use super::{
    Found,
    ledger::Ledger,
    reviews::{is_allowed, patch},
    trash::{SECOND, annotation, is_kept, record, virtual_seconds},
};
use crate::json::{at, is_deleting, name, namespace, text, uid};
use serde_json::Value;
use std::sync::Arc;
use volume_warden::objects::{
    rebind::REBIND,
    trash::{PURGE, TrashRecord, UNDELETE},
};
use volume_warden_apiserver_model::WebhookCall;

const WEBHOOK: &str = "claims.pvc-trash.volume-warden.dev";

/// A review of a new claim.
struct Review<'a> {
    ledger: &'a Ledger,
    /// The virtual millisecond in which the review began.
    began: u64,
    namespace: &'a str,
    name: &'a str,
    claim: &'a Value,
}

/// Checks the answer to a review of a new claim that began at the virtual millisecond `began`.
pub fn check(ledger: &Ledger, began: u64, call: &WebhookCall<'_>, answer: &Value) -> Found {
    if call.webhook != WEBHOOK {
        return None;
    }
    let review = Review {
        ledger,
        began,
        namespace: text(call.review, "/request/namespace"),
        name: text(call.review, "/request/name"),
        claim: at(call.review, "/request/object")?,
    };
    let message = match given(answer) {
        Some(volume) => {
            let why = review.wrong(&volume)?;
            format!("the claim {} got the volume {volume} {why}", review.name)
        }
        None if is_allowed(answer) => {
            let volume = review.left()?;
            format!("the claim {} did not get its volume {volume}", review.name)
        }
        None => return None,
    };
    Some(("S12", message))
}

/// The volume that the patch in the answer names in the claim.
fn given(answer: &Value) -> Option<String> {
    let patch: Vec<Value> = serde_json::from_slice(&patch(answer)?).ok()?;
    let named = patch
        .iter()
        .find(|each| each["path"] == "/spec/volumeName")?;
    Some(named["value"].as_str()?.to_owned())
}

impl Review<'_> {
    /// Why the claim must not get the volume.
    fn wrong(&self, volume: &str) -> Option<&'static str> {
        let removed = self.ledger.removed_since(self.began);
        let mut volumes = self.ledger.all("persistentvolumes").chain(removed);
        let volume = volumes.find(|each| name(each) == volume)?;
        let record = record(volume)?;
        if record.claim.namespace != self.namespace {
            return Some("of another namespace");
        }
        let recorded = record.claim.namespace_uid.as_deref();
        if recorded.is_some_and(|recorded| !self.is_namespace(recorded)) {
            return Some("of an earlier namespace");
        }
        if annotation(self.claim, UNDELETE).is_some() {
            return None;
        }
        if !self.ledger.plan.rebinds() {
            return Some("that it did not request");
        }
        if !self.is_settled(&record) {
            return None;
        }
        if record.claim.name != self.name {
            return Some("of a claim of another name");
        }
        if self.later(volume, &record) {
            return Some("of a claim that was not deleted last");
        }
        let other = |claim: &&Arc<Value>| self.requests(claim, name(volume));
        let requested = self.ledger.all("persistentvolumeclaims").any(|claim| {
            let created_at = self.ledger.created_at(uid(claim)).unwrap_or(self.began);
            other(&claim) && !is_deleting(claim) && created_at + self.late() < self.began
        });
        requested.then_some("that another claim requests")
    }

    /// Whether a namespace of this name had this uid during the review.
    fn is_namespace(&self, recorded: &str) -> bool {
        let removed = self.ledger.removed_since(self.began);
        let mut namespaces = self.ledger.all("namespaces").chain(removed);
        namespaces.any(|each| uid(each) == recorded && name(each) == self.namespace)
    }

    /// Whether another claim of this name was deleted after the claim of the given volume, long
    /// ago. A claim is created after the deletion of the earlier claim of its name, so the later
    /// claim was bound at a later resourceVersion.
    fn later(&self, given: &Value, given_record: &TrashRecord) -> bool {
        let bound = |volume: &Value| {
            let version = text(volume, "/spec/claimRef/resourceVersion");
            version.parse::<u64>().ok()
        };
        let mut volumes = self.ledger.all("persistentvolumes");
        volumes.any(|volume| {
            record(volume).is_some_and(|record| {
                let later = match (bound(volume), bound(given)) {
                    (Some(version), Some(given)) => version > given,
                    _ => record.deleted_at > given_record.deleted_at,
                };
                self.is_kept(volume, &record) && self.is_settled(&record) && later
            })
        })
    }

    /// Whether the volume is in the trash, for a deleted claim of the name and the namespace.
    fn is_kept(&self, volume: &Value, record: &TrashRecord) -> bool {
        let recorded = record.claim.namespace_uid.as_deref();
        is_kept(volume, record)
            && record.claim.namespace == self.namespace
            && record.claim.name == self.name
            && recorded.is_some_and(|recorded| self.is_namespace(recorded))
    }

    /// A volume that the claim should have got: the only one for its name, which has long been in
    /// the cache of every replica.
    fn left(&self) -> Option<&str> {
        let (ledger, start) = (self.ledger, &self.ledger.plan.start);
        let handled = ledger.plan.rebinds() && !start.dry_run && start.namespace.is_none();
        let open = text(self.claim, "/spec/storageClassName") == "delete"
            && text(self.claim, "/spec/volumeName").is_empty()
            && [UNDELETE, REBIND]
                .into_iter()
                .all(|key| annotation(self.claim, key).is_none());
        if !handled || !open {
            return None;
        }
        let refers = |each: &&Arc<Value>| {
            text(each, "/spec/claimRef/name") == self.name
                && text(each, "/spec/claimRef/namespace") == self.namespace
        };
        let earlier = self.began.saturating_sub(self.late() + SECOND);
        let mut volumes = ledger.all("persistentvolumes").filter(refers);
        let (volume, None) = (volumes.next()?, volumes.next()) else {
            return None;
        };
        let record = record(volume)?;
        let untouched = record.returned_at.is_none() && record.unbindable.is_empty();
        let fits = self.is_kept(volume, &record)
            && self.is_settled(&record)
            && untouched
            && annotation(volume, PURGE).is_none()
            && !ledger.removed_since(earlier).any(|each| refers(&each));
        let mut others = ledger.all("persistentvolumes");
        if others.any(|other| self.was_given_away(other, earlier)) {
            return None;
        }
        let removed = ledger.removed_since(earlier);
        let mut claims = ledger.all("persistentvolumeclaims").chain(removed);
        let requested = claims.any(|claim| self.requests(claim, name(volume)));
        (fits && !requested).then(|| name(volume))
    }

    /// Whether the volume of a deleted claim of this name was reserved for another claim since
    /// this time. Before that, there were two volumes for the name.
    fn was_given_away(&self, volume: &Value, since: u64) -> bool {
        record(volume).is_some_and(|record| {
            let of_name =
                record.claim.name == self.name && record.claim.namespace == self.namespace;
            let reserved = record.reserved_at.map(|at| virtual_seconds(at.as_second()));
            of_name && reserved.is_some_and(|seconds| (seconds + 1) * SECOND > since)
        })
    }

    /// Whether another claim of the namespace requests the volume.
    fn requests(&self, claim: &Value, volume: &str) -> bool {
        annotation(claim, UNDELETE).is_some()
            && text(claim, "/spec/volumeName") == volume
            && text(claim, "/status/phase") == "Pending"
            && namespace(claim) == self.namespace
            && name(claim) != self.name
    }

    /// Whether the deletion was recorded so long ago that the cache of every replica shows it.
    fn is_settled(&self, record: &TrashRecord) -> bool {
        let deleted = record.deleted_at.map(|at| virtual_seconds(at.as_second()));
        deleted.is_some_and(|seconds| (seconds + 1) * SECOND + self.late() < self.began)
    }

    fn late(&self) -> u64 {
        self.ledger.plan.late()
    }
}
