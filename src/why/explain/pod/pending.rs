//! Explains pods that do not run yet.

use super::{
    Causes,
    claims::{self, Mounted},
    missing, placement, waiting,
};
use crate::why::{
    Cause, Code, Evidence, LiveReads, Lookup, Object,
    explain::{claim, users},
    read::{PersistentVolumeClaim, Pod},
};
use kube::ResourceExt;

/// Why a pod cannot use a claim, in the order in which the reasons are reported.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum ClaimProblem {
    Missing,
    /// The claim of an ephemeral volume was not created for the pod.
    NotOwned,
    Deleting,
    Unbound,
}

type UnusableClaim<'a> = (ClaimProblem, &'a Mounted<'a>, Lookup<PersistentVolumeClaim>);

/// The chain of causes for the first claim that the pod cannot use, and one cause for each further
/// such claim. If the pod can use all its claims, the chain says what else the pod waits for.
pub(super) fn causes(reads: &LiveReads, object: &Object, pod: &Pod) -> Causes {
    let mounted = claims::mounted(pod);
    let names = mounted.iter().map(|mounted| mounted.claim.as_str());
    let lookups = reads.each(object.namespace_name(), names);
    let unread = lookups
        .iter()
        .any(|lookup| matches!(lookup, Lookup::Unread));
    let (mut unusable, mut usable) = (Vec::new(), Vec::new());
    for (mounted, lookup) in mounted.iter().zip(lookups) {
        match problem(pod, mounted, &lookup) {
            Some(problem) => unusable.push((problem, mounted, lookup)),
            None => usable.push(mounted.clone()),
        }
    }
    unusable.sort_by(|(one, ..): &UnusableClaim<'_>, (other, ..)| one.cmp(other));
    let mut unusable = unusable.into_iter();
    match unusable.next() {
        Some(first) => {
            let chain = chain(reads, object, pod, &first, &usable);
            let also = unusable.map(|other| link(reads, object, pod, &other));
            (chain, also.collect())
        }
        // A claim could not be read, so it is not known whether the pod waits for that claim.
        None if unread => Causes::default(),
        None => {
            let chain = waiting::causes(reads, object, pod, &mounted);
            (chain.unwrap_or_default(), Vec::new())
        }
    }
}

fn problem(
    pod: &Pod,
    mounted: &Mounted<'_>,
    lookup: &Lookup<PersistentVolumeClaim>,
) -> Option<ClaimProblem> {
    let claim = match lookup {
        Lookup::Absent => return Some(ClaimProblem::Missing),
        Lookup::Unread => return None,
        Lookup::Found(claim) => claim,
    };
    let is_foreign = mounted.is_foreign(pod, claim);
    match claim::state(claim) {
        // The claim of the pod is created after the deletion of a foreign claim of the same name.
        "Terminating" => {
            let is_lost = is_foreign || claims::is_lost(claim, Some(pod));
            is_lost.then_some(ClaimProblem::Deleting)
        }
        _ if is_foreign => Some(ClaimProblem::NotOwned),
        "Bound" => None,
        _ => Some(ClaimProblem::Unbound),
    }
}

/// The cause that the pod cannot use this claim.
fn link(
    reads: &LiveReads,
    object: &Object,
    pod: &Pod,
    (problem, mounted, lookup): &UnusableClaim<'_>,
) -> Cause {
    match lookup {
        Lookup::Found(claim) if *problem == ClaimProblem::NotOwned => {
            not_owned(object, mounted, claim)
        }
        Lookup::Found(claim) => has(object, claim),
        Lookup::Absent | Lookup::Unread => missing::cause(reads, object, pod, mounted),
    }
}

/// The cause that the pod cannot use this claim, followed by the causes for the state of the claim.
/// The pod can use the claims of the volumes `usable`.
fn chain(
    reads: &LiveReads,
    object: &Object,
    pod: &Pod,
    unusable: &UnusableClaim<'_>,
    usable: &[Mounted<'_>],
) -> Vec<Cause> {
    let (problem, mounted, lookup) = unusable;
    let Lookup::Found(claim) = lookup else {
        return missing::causes(reads, object, pod, mounted);
    };
    let first = link(reads, object, pod, unusable);
    // The state of a claim that the pod never uses is no cause.
    if *problem == ClaimProblem::NotOwned {
        return vec![first];
    }
    let name = Object::claim(object.namespace_name(), &claim.name_any());
    let further = claim::causes(reads, &name, claim);
    let further = not_back(reads, further, pod, usable);
    std::iter::once(first).chain(further).collect()
}

fn not_owned(pod: &Object, mounted: &Mounted<'_>, claim: &PersistentVolumeClaim) -> Cause {
    let (name, volume) = (claim.name_any(), &mounted.volume.name);
    let object = Object::claim(pod.namespace_name(), &name);
    let sentence = format!(
        "A claim {name} exists that was not created for the pod. The pod's ephemeral volume {volume} can use only a claim that the pod owns, and that claim is not created while another one has its name."
    );
    let evidence = Evidence::new(object.to_string(), "metadata.ownerReferences")
        .since(claim.creation_timestamp().map(|time| time.0));
    Cause::new(Code::ClaimNotOwned, sentence, evidence).run(
        format!("kubectl get {} -o yaml", object.arguments()),
        "to see in ownerReferences and labels what the claim belongs to; with another name, the pod \
         or its volume gets a claim of its own",
    )
}

fn has(pod: &Object, claim: &PersistentVolumeClaim) -> Cause {
    let (name, state) = (claim.name_any(), claim::state(claim));
    let object = Object::claim(pod.namespace_name(), &name);
    let (code, sentence, field, since) = match &claim.metadata.deletion_timestamp {
        Some(deleted) => (
            Code::ClaimDeleting,
            format!(
                "The pod's claim {name} is being deleted. The pod can use the claim only after it is deleted and recreated."
            ),
            "metadata.deletionTimestamp",
            Some(deleted.0),
        ),
        None => (
            Code::ClaimPending,
            format!("The pod's claim {name} is {state}, so there is no volume to mount."),
            "status.phase",
            claim.creation_timestamp().map(|time| time.0),
        ),
    };
    let evidence = Evidence::new(object.to_string(), field).since(since);
    Cause::new(code, sentence, evidence).run(
        format!("volume-warden why {}", object.arguments()),
        format!("to see why the claim is {state}"),
    )
}

/// Cuts the chain before the cause that the claim waits for a pod or for its node: this would lead
/// back to the pod that the chain starts from. The chain then ends with the volume that keeps every
/// node from that pod, if one of the volumes `usable` does, or else with the scheduler's message. A
/// pod with a node keeps the whole chain.
fn not_back(
    reads: &LiveReads,
    mut further: Vec<Cause>,
    pod: &Pod,
    usable: &[Mounted<'_>],
) -> Vec<Cause> {
    let back = |cause: &Cause| [Code::WaitsForPod, Code::PodUnscheduled].contains(&cause.code);
    if let (Some(at), Some(unscheduled)) = (further.iter().position(back), users::unscheduled(pod))
    {
        further.truncate(at);
        match placement::causes(reads, pod, usable).unwrap_or_default() {
            by_volumes if by_volumes.is_empty() => further.push(unscheduled),
            by_volumes => further.extend(by_volumes),
        }
    }
    further
}
