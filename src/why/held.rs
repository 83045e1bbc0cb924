//! What holds a claim or a volume that is being deleted, from no more than what the watches keep.
//!
//! This much the server knows without asking anybody: for its Events, its metrics, and its warnings to whoever deletes. The command
//! line begins with it, and looks further.

use super::{Cause, Code, Evidence, Object, finalizers::owner};
use crate::{
    objects::{
        Claim, ObjectName, Pod, Volume,
        finalizers::{PV_PROTECTION, PVC_PROTECTION, has},
    },
    pv_protection,
    pvc_protection::{FinishedPods, uses},
};
use std::fmt::Write as _;

/// No more pods are named in one sentence.
const NAMED: usize = 3;

/// A pod, and what it is called.
pub type Named<'a> = (&'a ObjectName, &'a Pod);

/// What holds the claim, or would if it were deleted now: first what all others may wait for. Of the pods, those count that use it.
pub fn claim(
    name: &ObjectName,
    claim: &Claim,
    pods: &[Named<'_>],
    mode: FinishedPods,
) -> Vec<Cause> {
    let used = |(_, pod): &&Named<'_>| uses(pod, &name.name, claim, mode);
    let users: Vec<Named<'_>> = pods.iter().filter(used).copied().collect();
    let object = Object::claim(&name.namespace, &name.name);
    let ours = has(&claim.finalizers, PVC_PROTECTION).then(|| match users.as_slice() {
        [] => unused(&object),
        users => used_by(users),
    });
    ours.into_iter()
        .chain(foreign(&object, &claim.finalizers, PVC_PROTECTION))
        .collect()
}

/// The same of a volume.
pub fn volume(name: &ObjectName, volume: &Volume) -> Vec<Cause> {
    let object = Object::volume(&name.name);
    let ours = has(&volume.finalizers, PV_PROTECTION).then(|| {
        if pv_protection::is_held(volume) {
            bound(&object, volume)
        } else {
            not_bound(&object)
        }
    });
    ours.into_iter()
        .chain(foreign(&object, &volume.finalizers, PV_PROTECTION))
        .collect()
}

fn used_by(users: &[Named<'_>]) -> Cause {
    let running = users.iter().find(|(_, pod)| !pod.finished);
    // There is one at least.
    let (first, _) = running.unwrap_or(&users[0]);
    let others = users.iter().filter(|(name, _)| name != first);
    let mut who = format!("pod {first}");
    for (count, (other, _)) in others.enumerate() {
        if count + 1 == NAMED {
            let _ = write!(who, " and {} more", users.len() - NAMED);
            break;
        }
        let _ = write!(who, ", {}", other.name);
    }
    let verb = if users.len() == 1 { "uses" } else { "use" };
    let first_pod = Object::pod(&first.namespace, &first.name);
    let delete = format!("kubectl delete {}", first_pod.arguments());
    let evidence = |field| Evidence::new(first_pod.to_string(), field);
    if running.is_some() {
        let sentence = format!("The claim is kept because {who} {verb} it.");
        return Cause::new(Code::InUse, sentence, evidence("spec.volumes"))
            .run(delete, "once what runs in the pod is not needed any more");
    }
    let sentence = format!(
        "The claim is kept because {who} {verb} it. What ran there has finished, but with --finished-pods=hold, as under Kubernetes' own \
         controller, that counts for as long as the pod exists."
    );
    Cause::new(Code::FinishedPod, sentence, evidence("status.phase")).run(
        delete,
        "once nobody wants to read the logs of the finished pod; --finished-pods=release would let the claim go without it",
    )
}

fn unused(object: &Object) -> Cause {
    let sentence = "No pod uses the claim any more, so its protection is taken off.";
    let evidence = Evidence::new(object.to_string(), "metadata.finalizers");
    Cause::new(Code::Unused, sentence, evidence).wait("it goes within seconds")
}

fn bound(object: &Object, volume: &Volume) -> Cause {
    let claim = volume.claim_ref.as_ref();
    let claim = claim.map_or_else(String::new, |claim| format!(" {}", claim.name));
    let sentence =
        format!("The volume is kept because the claim{claim} has it; it goes after its claim.");
    let evidence = Evidence::new(object.to_string(), "status.phase");
    let cause = Cause::new(Code::Bound, sentence, evidence);
    match &volume.claim_ref {
        Some(claim) => cause.run(
            format!(
                "kubectl delete {}",
                Object::claim(&claim.name.namespace, &claim.name.name).arguments()
            ),
            "only if what is on the volume is not needed any more",
        ),
        None => cause,
    }
}

fn not_bound(object: &Object) -> Cause {
    let sentence = "No claim has the volume, so its protection is taken off.";
    let evidence = Evidence::new(object.to_string(), "metadata.finalizers");
    Cause::new(Code::NotBound, sentence, evidence).wait("it goes within seconds")
}

/// One cause for each finalizer of somebody else, in their order.
fn foreign<'a>(
    object: &'a Object,
    finalizers: &'a [Box<str>],
    ours: &'a str,
) -> impl Iterator<Item = Cause> + 'a {
    let foreign = finalizers.iter().filter(move |each| ***each != *ours);
    foreign.map(move |finalizer| {
        let sentence = match owner(finalizer) {
            Some(owner) => format!(
                "The finalizer {finalizer} holds it; {} takes it off {}.",
                owner.who, owner.when
            ),
            None => format!(
                "The finalizer {finalizer} holds it, which is neither Kubernetes' nor Volume Warden's: whoever put it there has to take it off."
            ),
        };
        let evidence = Evidence::new(object.to_string(), "metadata.finalizers");
        let command = format!(
            "kubectl get {} -o yaml --show-managed-fields",
            object.arguments()
        );
        Cause::new(Code::ForeignFinalizer, sentence, evidence)
            .run(command, "to see who put it there, and then look after that controller")
    })
}
