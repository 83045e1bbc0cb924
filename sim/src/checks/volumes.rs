//! S2, S6: which changes of volumes are allowed.

use super::{Found, ledger::Ledger, sending::Ages, trash};
use crate::{
    json::{at, has_finalizer, is_deleting, name, text, uid},
    replica::SERVICE_ACCOUNT,
};
use serde_json::Value;
use volume_warden::objects::{finalizers::PV_PROTECTION, reuse::CLAIM_NAMESPACE};
use volume_warden_apiserver_model::Change;

/// Checks a change of a volume, and each binding.
pub fn check(ledger: &Ledger, now: u64, change: &Change, ages: Ages) -> Found {
    if let Some(crossed) = crossed(ledger, change) {
        return Some(crossed);
    }
    if change.plural != "persistentvolumes" {
        return None;
    }
    trash::check(ledger, now, change)
        .or_else(|| by_volume_warden(ledger, now, change, ages.releaser))
}

fn by_volume_warden(ledger: &Ledger, now: u64, change: &Change, age: u64) -> Found {
    if change.user != SERVICE_ACCOUNT {
        return None;
    }
    let before = change.before.as_ref()?;
    let after = change.after.as_ref();
    let released = has_finalizer(before, PV_PROTECTION)
        && after.is_none_or(|after| !has_finalizer(after, PV_PROTECTION));
    if released && text(before, "/status/phase") == "Bound" {
        return Some((
            "S2",
            format!(
                "the finalizer of the bound volume {} was removed",
                name(before)
            ),
        ));
    }
    if released && !is_deleting(before) {
        return Some((
            "S2",
            format!(
                "the finalizer of the living volume {} was removed",
                name(before)
            ),
        ));
    }
    let claim = |volume: &Value| text(volume, "/spec/claimRef/uid").to_owned();
    let cleared = !claim(before).is_empty() && after.is_some_and(|after| claim(after).is_empty());
    if cleared {
        wrongly_cleared(ledger, now, before, age)
    } else {
        None
    }
}

/// S6: a volume that waits for the claims of a namespace is bound to no claim of another one, not
/// even to one with the same name.
fn crossed(ledger: &Ledger, change: &Change) -> Found {
    let (before, after) = (change.before.as_ref()?, change.after.as_ref()?);
    let record = at(before, "/metadata/annotations")?.get(CLAIM_NAMESPACE)?;
    let mut record = record.as_str()?.split('/');
    let (recorded, recorded_uid) = (record.next()?, record.next()?);
    let claim = |volume: &Value| text(volume, "/spec/claimRef/uid").to_owned();
    let reserved = at(before, "/spec/claimRef/name").is_some();
    if !reserved || !claim(before).is_empty() || claim(after).is_empty() {
        return None;
    }
    let namespace = text(after, "/spec/claimRef/namespace");
    let live = ledger.get("namespaces", "", namespace);
    let same = live.is_none_or(|live| uid(live) == recorded_uid);
    (namespace != recorded || !same).then(|| {
        let message = format!(
            "the volume {} of {recorded} was bound in {namespace}",
            name(after)
        );
        ("S6", message)
    })
}

/// S6: claimRef is cleared only on a Released volume with the policy Retain that is not being
/// deleted and was not attached.
fn wrongly_cleared(ledger: &Ledger, now: u64, volume: &Value, age: u64) -> Found {
    let violation = |what: &str| {
        Some((
            "S6",
            format!(
                "the claimRef of the volume {} was cleared, and {what}",
                name(volume)
            ),
        ))
    };
    if text(volume, "/status/phase") != "Released" {
        return violation("it was not Released");
    }
    if text(volume, "/spec/persistentVolumeReclaimPolicy") != "Retain" {
        return violation("its policy is not Retain");
    }
    if is_deleting(volume) {
        return violation("it is being deleted");
    }
    // The volume of a deleted claim may be restored while it is attached.
    let restored = trash::record(volume).is_some();
    let attached = !restored
        && ledger.all("volumeattachments").any(|each| {
            text(each, "/spec/source/persistentVolumeName") == name(volume)
                && ledger
                    .created_at(uid(each))
                    .is_some_and(|created_at| created_at + age < now)
        });
    if attached {
        violation("it is attached")
    } else {
        None
    }
}
