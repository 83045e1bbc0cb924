//! S1, S3, S5, S13: which changes of claims are allowed.

use super::{Found, ledger::Ledger, sending::Ages};
use crate::{
    json::{
        at, claims_of, deletes_claims, has_finalizer, is_deleting, is_finished, list, name,
        namespace, ordinals, owners, text, uid,
    },
    replica::SERVICE_ACCOUNT,
};
use serde_json::Value;
use volume_warden::objects::{
    claim::{AWAITING_POD, SCALED_WITH},
    expiry::EXPIRES_AT,
    finalizers::PVC_PROTECTION,
};
use volume_warden_apiserver_model::Change;

/// Claims that were removed within this number of milliseconds count for the hourly limit. It is
/// less than an hour, because a claim is deleted a little before it is removed.
const COUNTED: u64 = 55 * 60 * 1_000;

/// Checks a change of a claim.
pub fn check(ledger: &Ledger, now: u64, change: &Change, ages: Ages) -> Found {
    if change.plural != "persistentvolumeclaims" {
        return None;
    }
    let before = change.before.as_ref()?;
    let own = change.user == SERVICE_ACCOUNT;
    let after = change.after.as_ref();
    let released = has_finalizer(before, PVC_PROTECTION)
        && after.is_none_or(|after| !has_finalizer(after, PVC_PROTECTION));
    if own && let Some(foreign) = foreign_finalizer(before, after.map(|after| &**after)) {
        return Some((
            "S1",
            format!("the finalizer {foreign} of {} was removed", name(before)),
        ));
    }
    if own && released {
        return still_used(ledger, before);
    }
    let deleted = !is_deleting(before) && after.is_none_or(|after| is_deleting(after));
    match deleted {
        true if own => deleted_by_volume_warden(ledger, now, before, ages),
        true if change.user.ends_with(":generic-garbage-collector") => {
            collected(ledger, now, before)
        }
        _ => None,
    }
}

/// The finalizer of another controller that a change removed.
fn foreign_finalizer<'a>(before: &'a Value, after: Option<&Value>) -> Option<&'a Value> {
    let finalizers = |object: &'a Value| list(object, "/metadata/finalizers").iter();
    let stays = |each: &Value| {
        after.is_some_and(|after| list(after, "/metadata/finalizers").contains(each))
    };
    finalizers(before).find(|each| *each != PVC_PROTECTION && !stays(each))
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
fn deleted_by_volume_warden(ledger: &Ledger, now: u64, claim: &Value, ages: Ages) -> Found {
    let annotation = |key: &str| at(claim, "/metadata/annotations").and_then(|all| all.get(key));
    if annotation(AWAITING_POD).is_some() {
        let named = |pod: &&std::sync::Arc<Value>| {
            namespace(pod) == namespace(claim)
                && claims_of(pod).any(|used| used == name(claim))
                && ledger
                    .created_at(uid(pod))
                    .is_some_and(|created_at| created_at + ages.provisioner < now)
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
    if annotation(EXPIRES_AT).is_some() && annotation(SCALED_WITH).is_none() {
        return expired(ledger, now, claim, ages.expiry);
    }
    let Some(set) = annotation(SCALED_WITH).and_then(Value::as_str) else {
        return Some((
            "S5",
            format!("the claim {} was deleted without a mark", name(claim)),
        ));
    };
    let pod = pod_of(ledger, now, claim, set, ages.retention);
    if let Some(pod) = pod {
        return Some((
            "S3",
            format!(
                "the claim {} was deleted, and the pod {} exists",
                name(claim),
                name(pod)
            ),
        ));
    }
    if permits(ledger, now, claim, set, ages.retention) {
        None
    } else {
        Some((
            "S3",
            format!(
                "the claim {} was deleted against the policy of its set",
                name(claim)
            ),
        ))
    }
}

/// S13: a claim expires only if it was announced, it has no owner, no pod that existed when the
/// pods were listed names it, its volume is recorded for the trash, and the hourly limit is not
/// exceeded.
fn expired(ledger: &Ledger, now: u64, claim: &Value, age: u64) -> Found {
    let violation = |what: &str| Some(("S13", format!("the claim {} expired {what}", name(claim))));
    let named = |pod: &&std::sync::Arc<Value>| {
        let listed = |created_at| created_at + age < now;
        namespace(pod) == namespace(claim)
            && claims_of(pod).any(|used| used == name(claim))
            && ledger.created_at(uid(pod)).is_some_and(listed)
    };
    if ledger.plan.expire_unused().is_none() {
        return violation("although its class says nothing of that");
    }
    if !owners(claim).is_empty() {
        return violation("although it has an owner");
    }
    if let Some(pod) = ledger.all("pods").find(named) {
        return violation(&format!("although the pod {} names it", name(pod)));
    }
    // Users delete no claim in these histories.
    let announced = |each: &&std::sync::Arc<Value>| {
        let annotations = at(each, "/metadata/annotations");
        annotations.is_some_and(|all| all.get(EXPIRES_AT).is_some()) && uid(each) != uid(claim)
    };
    let claims = ledger.all("persistentvolumeclaims");
    let deleted = claims.filter(|each| is_deleting(each));
    let deleted = deleted.chain(ledger.removed_since(now.saturating_sub(COUNTED)));
    let earlier = deleted.filter(announced).count();
    let limit = ledger.plan.max_expiries();
    if limit.is_some_and(|limit| earlier >= limit * ledger.plan.processes()) {
        return violation("beyond the limit of the hour");
    }
    let volume = text(claim, "/spec/volumeName");
    let kept = ledger.all("persistentvolumes").any(|each| {
        let record = super::trash::record(each);
        name(each) == volume
            && text(each, "/spec/persistentVolumeReclaimPolicy") == "Retain"
            && record.is_some_and(|record| *record.claim.uid == *uid(claim))
    });
    if kept {
        None
    } else {
        violation("although its data cannot be restored")
    }
}

/// A pod of the set that uses the claim and has existed for longer than this age.
fn pod_of<'a>(
    ledger: &'a Ledger,
    now: u64,
    claim: &Value,
    set: &str,
    age: u64,
) -> Option<&'a Value> {
    let mut pods = ledger.all("pods");
    let pod = pods.find(|pod| {
        claims_of(pod).any(|used| used == name(claim))
            && owners(pod).iter().any(|owner| text(owner, "/uid") == set)
            && ledger
                .created_at(uid(pod))
                .is_some_and(|created_at| created_at + age < now)
    });
    pod.map(|pod| &**pod)
}

/// S3: the garbage collector deletes a claim only if the retention policy of its StatefulSet says
/// so.
fn collected(ledger: &Ledger, now: u64, claim: &Value) -> Found {
    let late = ledger.plan.late();
    // Neither owners that users wrote nor those of the StatefulSet controller are checked.
    let permitted = owners(claim)
        .iter()
        .any(|owner| match text(owner, "/kind") {
            _ if ledger.has_in_tree_owner(uid(claim), text(owner, "/uid")) => true,
            "StatefulSet" => permits(ledger, now, claim, text(owner, "/uid"), late),
            // The garbage collector may be slow, so the policy at the removal of the pod counts.
            "Pod" => {
                let pod = text(owner, "/uid");
                let ended = ledger.removed(pod).map_or(now, |(at, _)| at);
                set_of(ledger, pod).is_none_or(|set| permits(ledger, ended, claim, &set, late))
            }
            _ => true,
        });
    if permitted {
        None
    } else {
        Some((
            "S3",
            format!(
                "the claim {} was collected against the policy of its set",
                name(claim)
            ),
        ))
    }
}

/// The uid of the StatefulSet of a pod.
fn set_of(ledger: &Ledger, pod: &str) -> Option<String> {
    let removed = ledger.removed(pod).map(|(_, pod)| pod);
    let pod = ledger
        .all("pods")
        .find(|each| uid(each) == pod)
        .or(removed)?;
    let set = owners(pod)
        .iter()
        .find(|owner| text(owner, "/kind") == "StatefulSet")?;
    Some(text(set, "/uid").to_owned())
}

/// Whether a spec that the set had in the `late` milliseconds before `now`, or has had since,
/// permits the deletion of the claim. The time is twice as long if the claim was changed meanwhile,
/// because a write of a changed claim fails until the watch has delivered the change.
fn permits(ledger: &Ledger, now: u64, claim: &Value, set: &str, late: u64) -> bool {
    let ordinal = name(claim)
        .rsplit_once('-')
        .and_then(|(_, ordinal)| ordinal.parse::<u64>().ok());
    let Some(ordinal) = ordinal else { return false };
    let deleted = ledger.deleted(set);
    let changed = ledger.changed(uid(claim));
    let late = if changed.is_some_and(|at| at + late > now) {
        2 * late
    } else {
        late
    };
    let since = deleted.unwrap_or(now).min(now).saturating_sub(late);
    ledger.specs_since(set, since).any(|spec| {
        let listed = list(spec, "/spec/volumeClaimTemplates")
            .iter()
            .any(|template| name(claim) == format!("{}-{}-{ordinal}", name(template), name(spec)));
        let scaled = !ordinals(spec).contains(&ordinal) && deletes_claims(spec, "whenScaled");
        listed && (scaled || (deleted.is_some() && deletes_claims(spec, "whenDeleted")))
    })
}
