//! What holds a claim or a volume that is being deleted, from no more than what the watches keep.
//!
//! This much the server knows without asking anybody: for its Events, its metrics, and its warnings to whoever deletes. The command
//! line begins with it, and looks further.

use super::{Cause, Code, Evidence, Next, Object, finalizers::owner};
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

/// What lets the claim go lets go of more than the pod.
const GOES_THEN_IN_USE: &str = "once neither the pod nor what is on the claim is needed: the claim goes with its last pod, and with the policy Delete its storage";
const GOES_THEN_FINISHED: &str = "once nobody needs the pod's logs or what is on the claim: the claim goes with its last pod, and with the policy Delete its storage";

/// A pod, and what it is called.
pub type Named<'a> = (&'a ObjectName, &'a Pod);

/// The code of the first cause that [`claim`] tells, and nothing else: cheap enough to be asked about every claim at every scrape. Of the
/// pods, those count that use it.
pub fn claim_code<'a>(
    name: &str,
    claim: &Claim,
    pods: impl IntoIterator<Item = &'a Pod>,
    mode: FinishedPods,
) -> Option<Code> {
    if !has(&claim.finalizers, PVC_PROTECTION) {
        return foreign_code(&claim.finalizers);
    }
    let pods = pods.into_iter();
    let mut users = pods.filter(|pod| uses(pod, name, claim, mode));
    let Some(first) = users.next() else {
        return Some(Code::Unused);
    };
    let all_finished = first.finished && users.all(|pod| pod.finished);
    Some(if all_finished {
        Code::FinishedPod
    } else {
        Code::InUse
    })
}

/// The same of a volume.
pub fn volume_code(volume: &Volume) -> Option<Code> {
    if !has(&volume.finalizers, PV_PROTECTION) {
        return foreign_code(&volume.finalizers);
    }
    Some(if pv_protection::is_held(volume) {
        Code::Bound
    } else {
        Code::NotBound
    })
}

/// Others may wait for us, so theirs come after ours.
fn foreign_code(finalizers: &[Box<str>]) -> Option<Code> {
    (!finalizers.is_empty()).then_some(Code::ForeignFinalizer)
}

/// Whether somebody has to do something before it goes: not where we are about to let go.
pub fn holds(code: Code) -> bool {
    !matches!(code, Code::Unused | Code::NotBound)
}

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
    let first = claim_code(&name.name, claim, users.iter().map(|(_, pod)| *pod), mode);
    let ours = match first {
        Some(Code::Unused) => Some(unused(&object)),
        Some(Code::ForeignFinalizer) | None => None,
        Some(code) => Some(used_by(code, &users)),
    };
    ours.into_iter()
        .chain(foreign(&object, &claim.finalizers, PVC_PROTECTION))
        .collect()
}

/// The same of a volume.
pub fn volume(name: &ObjectName, volume: &Volume) -> Vec<Cause> {
    let object = Object::volume(&name.name);
    let ours = match volume_code(volume) {
        Some(Code::Bound) => Some(bound(&object, volume)),
        Some(Code::NotBound) => Some(not_bound(&object)),
        _ => None,
    };
    ours.into_iter()
        .chain(foreign(&object, &volume.finalizers, PV_PROTECTION))
        .collect()
}

/// The cause in words, and what to do about it, for those who get nothing but a text.
pub fn told(cause: &Cause) -> String {
    let sentence = &cause.sentence;
    match &cause.next {
        Next::Run { command, purpose } => format!("{sentence} What to do, {purpose}: {command}"),
        Next::Nothing { meanwhile } if meanwhile.is_empty() => sentence.clone(),
        Next::Nothing { meanwhile } => format!("{sentence} Nothing is to be done: {meanwhile}."),
    }
}

/// What whoever deletes it is warned of: the first cause that lasts. Nothing where it goes at once.
pub fn warning(object: &Object, causes: &[Cause]) -> Option<String> {
    let cause = causes.iter().find(|cause| holds(cause.code))?;
    let (kind, name) = (object.kind.to_lowercase(), &object.name.name);
    Some(format!(
        "{kind} \"{name}\" stays Terminating for now. {}",
        cause.sentence
    ))
}

/// There is one user at least.
fn used_by(code: Code, users: &[Named<'_>]) -> Cause {
    let running = users.iter().find(|(_, pod)| !pod.finished);
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
    if code == Code::InUse {
        let sentence = format!("The claim is kept because {who} {verb} it.");
        return Cause::new(code, sentence, evidence("spec.volumes")).run(delete, GOES_THEN_IN_USE);
    }
    let sentence = format!(
        "The claim is kept because {who} {verb} it. What ran there has finished, but with --finished-pods=hold, as under Kubernetes' own \
         controller, that counts for as long as the pod exists; with --finished-pods=release it would not."
    );
    Cause::new(code, sentence, evidence("status.phase")).run(delete, GOES_THEN_FINISHED)
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
    foreign.map(move |finalizer| by_finalizer(object, finalizer))
}

/// That this finalizer of somebody else holds it.
pub fn by_finalizer(object: &Object, finalizer: &str) -> Cause {
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
    Cause::new(Code::ForeignFinalizer, sentence, evidence).run(
        format!(
            "kubectl get {} -o yaml --show-managed-fields",
            object.arguments()
        ),
        "to see who put it there, and then look after that controller",
    )
}
