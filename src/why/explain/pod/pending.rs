//! Explains pods that do not run yet.

use super::{
    Causes,
    claims::{self, Mounted},
    missing, waiting,
};
use crate::why::{
    Cause, Code, Evidence, Look, Object, World,
    explain::{claim, users},
    read::{PersistentVolumeClaim, Pod},
};
use kube::ResourceExt;

/// Why a pod cannot use a claim, in the order in which the reasons are reported.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    Missing,
    Deleting,
    Unbound,
}

type Troubled<'a> = (Trouble, &'a Mounted<'a>, Look<PersistentVolumeClaim>);

/// The chain of causes for the first claim that the pod cannot use, and one cause for each further
/// such claim. If the pod can use all its claims, the chain says what else the pod waits for.
pub(super) fn causes(world: &World, object: &Object, pod: &Pod) -> Causes {
    let mounted = claims::mounted(pod);
    let names = mounted.iter().map(|mounted| mounted.claim.as_str());
    let looks = world.each(object.namespace_name(), names);
    let unread = looks.iter().any(|look| matches!(look, Look::Unread));
    let troubled = mounted.iter().zip(looks);
    let mut troubled: Vec<Troubled<'_>> = troubled
        .filter_map(|(mounted, look)| Some((trouble(pod, &look)?, mounted, look)))
        .collect();
    troubled.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    let mut troubled = troubled.into_iter();
    match troubled.next() {
        Some(first) => {
            let chain = chain(world, object, pod, &first);
            let also = troubled.map(|other| link(object, pod, &other));
            (chain, also.collect())
        }
        // A claim could not be read, so it is not known whether the pod waits for that claim.
        None if unread => Causes::default(),
        None => {
            let chain = waiting::causes(world, object, pod, &mounted);
            (chain.unwrap_or_default(), Vec::new())
        }
    }
}

fn trouble(pod: &Pod, look: &Look<PersistentVolumeClaim>) -> Option<Trouble> {
    match look {
        Look::Absent => Some(Trouble::Missing),
        Look::Unread => None,
        Look::Found(claim) => match claim::state(claim) {
            "Bound" => None,
            "Terminating" => claims::is_lost(claim, Some(pod)).then_some(Trouble::Deleting),
            _ => Some(Trouble::Unbound),
        },
    }
}

/// The cause that the pod cannot use this claim.
fn link(object: &Object, pod: &Pod, (_, mounted, look): &Troubled<'_>) -> Cause {
    match look {
        Look::Found(claim) => has(object, claim),
        Look::Absent | Look::Unread => missing::cause(object, pod, mounted),
    }
}

/// The cause that the pod cannot use this claim, followed by the causes for the state of the claim.
fn chain(world: &World, object: &Object, pod: &Pod, troubled: &Troubled<'_>) -> Vec<Cause> {
    let (_, mounted, look) = troubled;
    let Look::Found(claim) = look else {
        return missing::causes(world, object, pod, mounted);
    };
    let name = Object::claim(object.namespace_name(), &claim.name_any());
    let further = claim::causes(world, &name, claim);
    let first = link(object, pod, troubled);
    [first].into_iter().chain(not_back(further, pod)).collect()
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
/// back to the pod that the chain starts from. The chain then ends with the scheduler's message
/// about that pod. A pod with a node keeps the whole chain.
fn not_back(mut further: Vec<Cause>, pod: &Pod) -> Vec<Cause> {
    let back = |cause: &Cause| [Code::WaitsForPod, Code::PodUnscheduled].contains(&cause.code);
    if let (Some(at), Some(unscheduled)) = (further.iter().position(back), users::unscheduled(pod))
    {
        further.truncate(at);
        further.push(unscheduled);
    }
    further
}
