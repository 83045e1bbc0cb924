//! S2, S6, S12: what may happen to volumes.

use super::{Found, ledger::Ledger};
use crate::{
    cluster::EPOCH,
    json::{has_finalizer, is_deleting, name, text, uid},
    replica::SERVICE_ACCOUNT,
};
use serde_json::Value;
use volume_warden::objects::{
    finalizers::PV_PROTECTION,
    reuse::CLAIM_NAMESPACE,
    trash::{TRASH, TrashRecord},
};
use volume_warden_apiserver_model::Change;

/// Looks at a change of a volume, and at each binding.
pub fn check(ledger: &Ledger, now: u64, change: &Change) -> Found {
    if let Some(crossed) = crossed(ledger, change) {
        return Some(crossed);
    }
    if change.plural != "persistentvolumes" {
        return None;
    }
    let after = change.after.as_deref();
    let at_risk = after.and_then(|after| data_at_risk(now, change.before.as_deref(), after));
    at_risk.or_else(|| by_volume_warden(ledger, now, change))
}

/// S12: once the trash is enabled for a volume, no version of it is Released with the policy Delete
/// before its window has ended.
fn data_at_risk(now: u64, before: Option<&Value>, after: &Value) -> Found {
    let record = record(after)?;
    let at_risk = |volume: &Value| {
        text(volume, "/status/phase") == "Released"
            && text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete"
    };
    if !at_risk(after) || before.is_some_and(at_risk) {
        return None;
    }
    let void = record.claim.uid != text(after, "/spec/claimRef/uid");
    let seconds = EPOCH.unix_timestamp() + i64::try_from(now / 1000).unwrap_or_default();
    let ended = record.ends().is_some_and(|end| end.as_second() <= seconds);
    (void || !ended).then(|| {
        let message = format!(
            "the data of the volume {} is deleted within its window",
            name(after)
        );
        ("S12", message)
    })
}

fn record(volume: &Value) -> Option<TrashRecord> {
    let text = volume
        .pointer("/metadata/annotations")?
        .get(TRASH)?
        .as_str()?;
    serde_json::from_str(text).ok()
}

fn by_volume_warden(ledger: &Ledger, now: u64, change: &Change) -> Found {
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
        wrongly_cleared(ledger, now, before)
    } else {
        None
    }
}

/// S6: a volume that waits for the claims of a namespace is bound to no claim of another one, also
/// of the same name.
fn crossed(ledger: &Ledger, change: &Change) -> Found {
    let (before, after) = (change.before.as_ref()?, change.after.as_ref()?);
    let record = before
        .pointer("/metadata/annotations")?
        .get(CLAIM_NAMESPACE)?;
    let mut record = record.as_str()?.split('/');
    let (recorded, recorded_uid) = (record.next()?, record.next()?);
    let claim = |volume: &Value| text(volume, "/spec/claimRef/uid").to_owned();
    let reserved = before.pointer("/spec/claimRef/name").is_some();
    if !reserved || !claim(before).is_empty() || claim(after).is_empty() {
        return None;
    }
    let namespace = text(after, "/spec/claimRef/namespace");
    let mut namespaces = ledger.all("namespaces");
    let live = namespaces.find(|each| name(each) == namespace);
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
