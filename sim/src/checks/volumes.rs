//! S2, S6: what may happen to volumes.

use super::{Found, ledger::Ledger};
use crate::{
    json::{has_finalizer, is_deleting, name, text, uid},
    replica::SERVICE_ACCOUNT,
};
use serde_json::Value;
use volume_warden::objects::finalizers::PV_PROTECTION;
use volume_warden_apiserver_model::Change;

/// Looks at a change of a volume by Volume Warden.
pub fn check(ledger: &Ledger, now: u64, change: &Change) -> Found {
    if change.plural != "persistentvolumes" || change.user != SERVICE_ACCOUNT {
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
        wrongly_cleared(ledger, now, before)
    } else {
        None
    }
}

/// S6: claimRef is cleared only on a Released volume with the policy Retain that is not being
/// deleted and was not attached.
fn wrongly_cleared(ledger: &Ledger, now: u64, volume: &Value) -> Found {
    let said = |what: &str| {
        Some((
            "S6",
            format!(
                "the claimRef of the volume {} was cleared, and {what}",
                name(volume)
            ),
        ))
    };
    if text(volume, "/status/phase") != "Released" {
        return said("it was not Released");
    }
    if text(volume, "/spec/persistentVolumeReclaimPolicy") != "Retain" {
        return said("its policy is not Retain");
    }
    if is_deleting(volume) {
        return said("it is being deleted");
    }
    let attached = ledger.all("volumeattachments").any(|each| {
        text(each, "/spec/source/persistentVolumeName") == name(volume)
            && ledger
                .born(uid(each))
                .is_some_and(|born| born + ledger.plan.late_live() < now)
    });
    if attached {
        said("it is attached")
    } else {
        None
    }
}
