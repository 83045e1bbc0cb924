//! S12: the data of a deleted claim is kept during its window, and no other namespace gets it.

use super::{Found, ledger::Ledger};
use crate::{
    cluster::EPOCH,
    json::{at, is_deleting, name, namespace, text, uid},
    plan::CLOCK_TOLERANCE,
};
use serde_json::Value;
use volume_warden::{
    go_duration,
    objects::trash::{OriginalPolicy, PURGE, TRASH, TrashRecord, UNDELETE},
};
use volume_warden_apiserver_model::Change;

/// The resolution of the API server's clock, in milliseconds.
pub(super) const SECOND: u64 = 1_000;

/// Checks a change of a volume with a record.
pub fn check(ledger: &Ledger, now: u64, change: &Change) -> Found {
    let after = change.after.as_deref()?;
    let before = change.before.as_deref();
    let lost =
        before.filter(|before| record(before).is_some_and(|record| is_kept(before, &record)));
    if lost.is_some() && record(after).is_none() {
        let message = format!("the volume {} in the trash lost its record", name(after));
        return Some(("S12", message));
    }
    // A volume loses its record when a claim is bound to it, not while it is at risk.
    let record = record(after).or_else(|| record(before.filter(|_| is_at_risk(after))?))?;
    let violation = |what: &str| {
        let message = format!("the volume {} of a deleted claim {what}", name(after));
        Some(("S12", message))
    };
    let owner = text(after, "/spec/claimRef/namespace");
    if !owner.is_empty() && owner != record.claim.namespace {
        return violation("was given to another namespace");
    }
    if is_given_to_a_later_namespace(ledger, before, after, &record) {
        return violation("was given to a later namespace of the same name");
    }
    if !is_at_risk(after) || before.is_some_and(is_at_risk) {
        return None;
    }
    let claim = text(after, "/spec/claimRef/uid");
    if ledger
        .all("persistentvolumeclaims")
        .any(|each| uid(each) == claim)
    {
        return violation("is purged though the claim exists");
    }
    if record.policy == OriginalPolicy::Retain {
        return violation("is purged though its policy was Retain");
    }
    let requested = annotation(after, PURGE) == Some(claim);
    // The window has ended by Volume Warden's record and by the actual deletion of the claim.
    let recorded = record.ends().map(|end| end.as_second());
    let window = ledger.plan.undelete_window().map_or(0, milliseconds);
    let deleted = ledger.deleted(&record.claim.uid);
    let ended = recorded.is_some_and(|end| end <= seconds(now))
        && deleted.is_none_or(|deleted| deleted + window <= now + SECOND);
    let void = record.claim.uid != claim;
    if void || !(ended || requested) {
        return violation("is purged within its window");
    }
    None
}

/// Whether the volume is bound to a new claim of a namespace that was created after the namespace
/// in the record was deleted.
fn is_given_to_a_later_namespace(
    ledger: &Ledger,
    before: Option<&Value>,
    after: &Value,
    record: &TrashRecord,
) -> bool {
    let bound = text(after, "/spec/claimRef/uid");
    let unchanged = before.is_some_and(|before| text(before, "/spec/claimRef/uid") == bound);
    if bound.is_empty() || unchanged || record.claim.uid == bound {
        return false;
    }
    // kube-controller-manager compares only the name of the claim that a volume is reserved for, so
    // another claim of that name may get it before Volume Warden ends the reservation. The
    // documentation of pvc-trash states this.
    let reserved = before.is_some_and(|before| text(before, "/spec/claimRef/uid").is_empty());
    let for_another = record.reserved_for.as_deref() != Some(bound);
    if reserved && record.reserved_at.is_some() && for_another {
        return false;
    }
    let mut claims = ledger.all("persistentvolumeclaims");
    let Some(claim) = claims.find(|each| uid(each) == bound) else {
        return false;
    };
    let live = ledger.get("namespaces", "", namespace(claim));
    live.is_some_and(|live| record.claim.namespace_uid.as_deref() != Some(uid(live)))
}

/// Returns what is wrong with a volume with a record in a cluster at rest.
pub fn at_rest(ledger: &Ledger, volume: &Value) -> Option<String> {
    let record = record(volume)?;
    let claims = || ledger.all("persistentvolumeclaims");
    let phase = text(volume, "/status/phase");
    if record.reserved_at.is_some() && phase == "Available" {
        let reserved_for = |field: &str| text(volume, &format!("/spec/claimRef/{field}"));
        let exists = claims().any(|each| {
            name(each) == reserved_for("name") && namespace(each) == reserved_for("namespace")
        });
        return (!exists).then(|| format!("the volume {} stays reserved", name(volume)));
    }
    if let Some(claim) = claims().find(|claim| may_get(ledger, claim, volume, &record)) {
        let (volume, claim) = (name(volume), name(claim));
        return Some(format!(
            "the volume {volume} was not restored for the claim {claim}"
        ));
    }
    let attached = ledger
        .all("volumeattachments")
        .any(|each| text(each, "/spec/source/persistentVolumeName") == name(volume));
    let requested = claims().any(|each| {
        namespace(each) == record.claim.namespace && text(each, "/spec/volumeName") == name(volume)
    });
    let kept = record.policy == OriginalPolicy::Retain || attached || requested;
    // A leader whose clock is wrong purges nothing.
    let kept = kept || ledger.plan.clock_skew.abs() > CLOCK_TOLERANCE;
    // Without rebinding, every window ends before the cluster is at rest, except after a failed
    // restore.
    let kept = kept || record.returned_at.is_some();
    // Where claims are rebound, the windows end later: only a request ends them.
    let requested = annotation(volume, PURGE) == Some(text(volume, "/spec/claimRef/uid"));
    let kept = kept || (ledger.plan.rebinds() && !requested);
    (phase == "Released" && !kept).then(|| format!("the volume {} was not purged", name(volume)))
}

/// Whether the claim waits for this volume in the trash, and Volume Warden has to reserve it.
fn may_get(ledger: &Ledger, claim: &Value, volume: &Value, record: &TrashRecord) -> bool {
    let live = ledger.get("namespaces", "", namespace(claim));
    is_kept(volume, record)
        && annotation(volume, PURGE).is_none()
        && annotation(claim, UNDELETE).is_some()
        && text(claim, "/spec/volumeName") == name(volume)
        && text(claim, "/status/phase") == "Pending"
        && !is_deleting(claim)
        && namespace(claim) == record.claim.namespace
        && live.is_some_and(|live| record.claim.namespace_uid.as_deref() == Some(uid(live)))
        && record.is_restorable()
        && !record.unbindable.iter().any(|each| each == uid(claim))
}

/// The record of the volume, if it has a valid one.
pub fn record(volume: &Value) -> Option<TrashRecord> {
    serde_json::from_str(annotation(volume, TRASH)?).ok()
}

/// Whether the volume with this record is in the trash, for the claim of the record.
pub fn is_kept(volume: &Value, record: &TrashRecord) -> bool {
    text(volume, "/status/phase") == "Released"
        && text(volume, "/spec/persistentVolumeReclaimPolicy") == "Retain"
        && !is_deleting(volume)
        && record.claim.uid == text(volume, "/spec/claimRef/uid")
}

/// Whether the provisioner of the volume may delete its data at any time.
fn is_at_risk(volume: &Value) -> bool {
    text(volume, "/status/phase") == "Released"
        && text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete"
}

/// The annotation with this key.
pub fn annotation<'a>(volume: &'a Value, key: &str) -> Option<&'a str> {
    at(volume, "/metadata/annotations")?.get(key)?.as_str()
}

fn milliseconds(window: &str) -> u64 {
    let window = go_duration::parse(window).unwrap_or_default();
    u64::try_from(window.as_millis()).unwrap_or(u64::MAX)
}

/// Converts a Unix time in seconds to virtual seconds.
pub fn virtual_seconds(seconds: i64) -> u64 {
    u64::try_from(seconds - EPOCH.unix_timestamp()).unwrap_or_default()
}

fn seconds(now: u64) -> i64 {
    EPOCH.unix_timestamp() + i64::try_from(now / 1000).unwrap_or_default()
}
