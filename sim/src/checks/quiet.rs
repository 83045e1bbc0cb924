//! Liveness: the state that must be reached after the faults have ended.

use super::{Violation, ledger::Ledger, retention, rivals, trash};
use crate::{
    cluster::Cluster,
    json::{at, claims_of, has_finalizer, is_deleting, is_finished, name, namespace, text, uid},
};
use serde_json::Value;
use std::sync::Arc;
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};
use volume_warden::objects::{
    claim::AWAITING_POD,
    finalizers::{PV_PROTECTION, PVC_PROTECTION},
    reuse::CLAIM_NAMESPACE,
    trash::TRASH,
};

/// The label of volumes that are released for reuse, and of their claims.
const MANAGED_BY: &str = "reclaimable-pv-releaser.kubernetes.io/managed-by";

/// The longest time for which a fault, a hold and a pause together delay a request.
const LONGEST_DELAY: Duration = Duration::seconds(60);

/// Maximum number of writes to one object in a history: a higher number is a loop.
const MAX_WRITES: u32 = 30;

/// Returns whether a volume is in the trash again after a restore that failed.
pub fn was_returned(cluster: &Cluster) -> bool {
    cluster.checks.with_ledger(|ledger| {
        let mut records = ledger
            .all("persistentvolumes")
            .filter_map(|volume| trash::record(volume));
        records.any(|record| record.returned_at.is_some())
    })
}

/// Returns each promise of the README that is broken in a cluster at rest.
pub fn at_rest(cluster: &Cluster) -> Vec<Violation> {
    cluster.checks.with_ledger(|ledger| {
        let start = &ledger.plan.start;
        let mut found: Vec<String> = Vec::new();
        // A dry run promises nothing, and a process for one namespace promises nothing outside of
        // it.
        if !start.dry_run {
            let handled =
                |object: &&Arc<Value>| start.namespace.is_none_or(|only| only == namespace(object));
            for claim in ledger.all("persistentvolumeclaims").filter(handled) {
                found.extend(of_claim(ledger, claim));
                found.extend(of_condition(ledger, claim));
                found.extend(rivals::at_rest(ledger, claim));
                found.extend(retention::at_rest(ledger, claim));
            }
            let pods = ledger.all("pods").filter(handled);
            found.extend(pods.filter_map(|pod| of_request(ledger, pod)));
        }
        if !start.dry_run && start.namespace.is_none() {
            for volume in ledger.all("persistentvolumes") {
                found.extend(of_volume(volume));
                found.extend(of_reuse(ledger, volume));
                found.extend(trash::at_rest(ledger, volume));
            }
        }
        let many = ledger.writes().filter(|(_, count)| *count > MAX_WRITES);
        let at = cluster.schedule.now();
        let violation = |invariant| {
            move |message| Violation {
                invariant,
                at,
                message,
            }
        };
        let budget = many
            .map(|(uid, count)| format!("{count} writes to {uid}"))
            .map(violation("S11"));
        found
            .into_iter()
            .map(violation("liveness"))
            .chain(budget)
            .collect()
    })
}

fn of_claim(ledger: &Ledger, claim: &Value) -> Option<String> {
    let protected = has_finalizer(claim, PVC_PROTECTION);
    let annotations = at(claim, "/metadata/annotations");
    let mark = annotations.and_then(|all| all.get(AWAITING_POD)?.as_str());
    let awaiting = mark.is_some_and(|mark| !is_taken_for_a_copy(ledger, claim, mark));
    let named = |pod: &Arc<Value>| {
        namespace(pod) == namespace(claim) && claims_of(pod).any(|used| used == name(claim))
    };
    if awaiting && !is_deleting(claim) && !ledger.all("pods").any(named) {
        return Some(format!(
            "the claim {} waits for a pod indefinitely",
            name(claim)
        ));
    }
    if !is_deleting(claim) {
        return (!protected)
            .then(|| format!("the claim {} has no protection finalizer", name(claim)));
    }
    let uses = |pod: &&Arc<Value>| {
        namespace(pod) == namespace(claim)
            && claims_of(pod).any(|used| used == name(claim))
            && !text(pod, "/spec/nodeName").is_empty()
            && (ledger.finished_hold() || !is_finished(pod))
    };
    let used = ledger.all("pods").any(|pod| uses(&pod));
    (protected && !used)
        .then(|| format!("the claim {} is unused and was not released", name(claim)))
}

/// Returns whether Volume Warden takes the mark for that of another claim, of which this one is a
/// copy, because the times of mark and creation differ by more than ten minutes, and the clock of
/// the replica and a held request explain that. Any other such mark is a defect.
fn is_taken_for_a_copy(ledger: &Ledger, claim: &Value, mark: &str) -> bool {
    let time = |text| OffsetDateTime::parse(text, &Rfc3339);
    let created = time(text(claim, "/metadata/creationTimestamp"));
    let apart = time(mark).and_then(|mark| Ok((mark - created?).abs()));
    // Both times are in whole seconds.
    let explained = Duration::seconds(ledger.plan.clock_skew.abs() + 1) + LONGEST_DELAY;
    apart.is_ok_and(|apart| apart > Duration::minutes(10) && apart <= explained)
}

/// Checks that the condition Unused of a bound claim shows whether an unfinished pod names it.
fn of_condition(ledger: &Ledger, claim: &Value) -> Option<String> {
    if is_deleting(claim) || text(claim, "/status/phase") != "Bound" {
        return None;
    }
    let uses = |pod: &Arc<Value>| {
        namespace(pod) == namespace(claim)
            && claims_of(pod).any(|used| used == name(claim))
            && !is_finished(pod)
            && !is_deleting(pod)
    };
    let expected = if ledger.all("pods").any(uses) {
        "False"
    } else {
        "True"
    };
    let conditions = at(claim, "/status/conditions");
    let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    let mut unused = conditions.filter(|each| each["type"] == "Unused");
    let status = unused
        .next()
        .map_or("missing", |each| text(each, "/status"));
    (status != expected).then(|| {
        format!(
            "the condition Unused of the claim {} is {status} instead of {expected}",
            name(claim)
        )
    })
}

/// Checks that the volume of a labelled claim is labelled, and is released after the claim is
/// removed.
fn of_reuse(ledger: &Ledger, volume: &Value) -> Option<String> {
    let kept = text(volume, "/spec/persistentVolumeReclaimPolicy") == "Retain";
    // pvc-trash handles the volume, which pv-releaser leaves unchanged.
    let trash = at(volume, "/metadata/annotations").is_some_and(|all| all.get(TRASH).is_some());
    if !kept || trash || is_deleting(volume) {
        return None;
    }
    let label = |object: &Value| at(object, "/metadata/labels")?.get(MANAGED_BY).cloned();
    let attached = ledger
        .all("volumeattachments")
        .any(|each| text(each, "/spec/source/persistentVolumeName") == name(volume));
    match text(volume, "/status/phase") {
        // Without the record, the namespace of the claim is unknown.
        "Released" if !is_recorded(volume) => None,
        // The PV controller chose the volume for a claim that was deleted before it was bound. The
        // claim exists until its pods are gone.
        "Released" if claim_of(ledger, volume).is_some() => None,
        "Released" if label(volume).is_some() && !attached => Some(format!(
            "the volume {} was not released for reuse",
            name(volume)
        )),
        "Bound" => {
            let claim = claim_of(ledger, volume)?;
            let volume = match label(volume) {
                None if label(claim).is_some() => format!("{} was not labelled", name(volume)),
                Some(_) if !is_recorded(volume) => {
                    format!(
                        "{} does not record the namespace of its claim",
                        name(volume)
                    )
                }
                _ => return None,
            };
            Some(format!("the volume {volume}"))
        }
        _ => None,
    }
}

/// The claim that the volume names by its uid, if it exists.
fn claim_of<'a>(ledger: &'a Ledger, volume: &Value) -> Option<&'a Arc<Value>> {
    let claim = text(volume, "/spec/claimRef/uid");
    let mut claims = ledger.all("persistentvolumeclaims");
    claims.find(|each| uid(each) == claim)
}

/// Whether the volume records the namespace of the claim that it names.
fn is_recorded(volume: &Value) -> bool {
    let record = at(volume, "/metadata/annotations").and_then(|all| all.get(CLAIM_NAMESPACE));
    let record = record.and_then(Value::as_str).unwrap_or_default();
    record.ends_with(&format!("/{}", text(volume, "/spec/claimRef/uid")))
}

/// Checks that each claim that a waiting pod requests exists.
fn of_request(ledger: &Ledger, pod: &Value) -> Option<String> {
    let annotations = at(pod, "/metadata/annotations")?.as_object()?;
    let requests = annotations.keys().any(|key| key.ends_with(".pvc"));
    if !requests || is_deleting(pod) || !text(pod, "/spec/nodeName").is_empty() {
        return None;
    }
    let found = |claim: &str| ledger.get("persistentvolumeclaims", namespace(pod), claim);
    let missing = claims_of(pod).find(|claim| found(claim).is_none())?;
    Some(format!(
        "the claim {missing}, which {} requests, was not created",
        name(pod)
    ))
}

fn of_volume(volume: &Value) -> Option<String> {
    let protected = has_finalizer(volume, PV_PROTECTION);
    if !is_deleting(volume) {
        return (!protected)
            .then(|| format!("the volume {} has no protection finalizer", name(volume)));
    }
    let bound = text(volume, "/status/phase") == "Bound";
    (protected && !bound).then(|| {
        format!(
            "the volume {} is not bound and was not released",
            name(volume)
        )
    })
}
