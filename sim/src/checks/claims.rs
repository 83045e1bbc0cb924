//! S1, S3, S5: what may happen to claims.

use super::{Found, ledger::Ledger};
use crate::{
    json::{
        claims_of, has_finalizer, is_deleting, is_finished, list, name, namespace, ordinals,
        owners, text, uid,
    },
    replica::SERVICE_ACCOUNT,
};
use serde_json::Value;
use volume_warden::objects::{claim::AWAITING_POD, finalizers::PVC_PROTECTION};
use volume_warden_apiserver_model::Change;

/// How long an object may have been known to be otherwise before a write that rests on a live read:
/// the time limits of the read and of the write, and the time that a request may be held.
pub const LATE: u64 = 45_000;

/// Looks at a change of a claim.
pub fn check(ledger: &Ledger, now: u64, change: &Change) -> Found {
    if change.plural != "persistentvolumeclaims" {
        return None;
    }
    let before = change.before.as_ref()?;
    let own = change.user == SERVICE_ACCOUNT;
    let after = change.after.as_ref();
    let released = has_finalizer(before, PVC_PROTECTION)
        && after.is_none_or(|after| !has_finalizer(after, PVC_PROTECTION));
    if own && released {
        return still_used(ledger, before);
    }
    let deleted = !is_deleting(before) && after.is_none_or(|after| is_deleting(after));
    match deleted {
        true if own => deleted_by_us(ledger, now, before),
        true if change.user.ends_with(":generic-garbage-collector") => {
            collected(ledger, now, before)
        }
        _ => None,
    }
}

/// S1: the finalizer of a claim is removed only when no pod that was scheduled before the deletion
/// of the claim uses it.
fn still_used(ledger: &Ledger, claim: &Value) -> Found {
    let Some(deleted) = ledger.deleted(uid(claim)) else {
        return Some((
            "S1",
            format!(
                "the finalizer of the living claim {} was removed",
                name(claim)
            ),
        ));
    };
    let uses = |pod: &&std::sync::Arc<Value>| {
        namespace(pod) == namespace(claim)
            && claims_of(pod).any(|used| used == name(claim))
            && ledger.scheduled(uid(pod)).is_some_and(|at| at < deleted)
            && (ledger.finished_hold() || !is_finished(pod))
    };
    let user = ledger.all("pods").find(uses)?;
    Some((
        "S1",
        format!(
            "the pod {} uses the claim {}, whose finalizer was removed",
            name(user),
            name(claim)
        ),
    ))
}

/// S3 and S5: Volume Warden itself deletes only claims that it marked.
fn deleted_by_us(ledger: &Ledger, now: u64, claim: &Value) -> Found {
    let annotation = |key: &str| {
        claim
            .pointer("/metadata/annotations")
            .and_then(|all| all.get(key))
    };
    if annotation(AWAITING_POD).is_some() {
        let named = |pod: &&std::sync::Arc<Value>| {
            namespace(pod) == namespace(claim)
                && claims_of(pod).any(|used| used == name(claim))
                && ledger.born(uid(pod)).is_some_and(|born| born + LATE < now)
        };
        if !owners(claim).is_empty() {
            return Some((
                "S5",
                format!("the claim {} has an owner and was deleted", name(claim)),
            ));
        }
        let pod = ledger.all("pods").find(named)?;
        return Some((
            "S5",
            format!(
                "the claim {} was deleted, and the pod {} names it",
                name(claim),
                name(pod)
            ),
        ));
    }
    let Some(set) = annotation(volume_warden::objects::claim::SCALED_WITH).and_then(Value::as_str)
    else {
        return Some((
            "S5",
            format!("the claim {} was deleted without a mark", name(claim)),
        ));
    };
    match permits(ledger, now, claim, set) {
        true => None,
        false => Some((
            "S3",
            format!(
                "the claim {} was deleted against the policy of its set",
                name(claim)
            ),
        )),
    }
}

/// S3: a claim is collected only as the retention policy of its set says.
fn collected(ledger: &Ledger, now: u64, claim: &Value) -> Found {
    // A claim whose owners users wrote is not of concern.
    let permitted = owners(claim)
        .iter()
        .any(|owner| match text(owner, "/kind") {
            "StatefulSet" => permits(ledger, now, claim, text(owner, "/uid")),
            "Pod" => set_of(ledger, text(owner, "/uid"))
                .is_none_or(|set| permits(ledger, now, claim, &set)),
            _ => true,
        });
    match permitted {
        true => None,
        false => Some((
            "S3",
            format!(
                "the claim {} was collected against the policy of its set",
                name(claim)
            ),
        )),
    }
}

/// The uid of the StatefulSet of a pod.
fn set_of(ledger: &Ledger, pod: &str) -> Option<String> {
    let gone = ledger.gone(pod).map(|(_, pod)| pod);
    let pod = ledger.all("pods").find(|each| uid(each) == pod).or(gone)?;
    let set = owners(pod)
        .iter()
        .find(|owner| text(owner, "/kind") == "StatefulSet")?;
    Some(text(set, "/uid").to_owned())
}

/// Whether a spec that the set had in the last [`LATE`] milliseconds permits to delete the claim.
fn permits(ledger: &Ledger, now: u64, claim: &Value, set: &str) -> bool {
    let policy = |spec: &Value, when: &str| {
        text(
            spec,
            &format!("/spec/persistentVolumeClaimRetentionPolicy/{when}"),
        ) == "Delete"
    };
    let ordinal = name(claim)
        .rsplit_once('-')
        .and_then(|(_, ordinal)| ordinal.parse::<u64>().ok());
    let Some(ordinal) = ordinal else { return false };
    let deleted = ledger.deleted(set);
    let since = deleted.unwrap_or(now).min(now).saturating_sub(LATE);
    ledger.specs_since(set, since).any(|spec| {
        let listed = list(spec, "/spec/volumeClaimTemplates")
            .iter()
            .any(|template| name(claim) == format!("{}-{}-{ordinal}", name(template), name(spec)));
        let scaled = !ordinals(spec).contains(&ordinal) && policy(spec, "whenScaled");
        listed && (scaled || (deleted.is_some() && policy(spec, "whenDeleted")))
    })
}
