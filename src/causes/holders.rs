//! What prevents the deletion of a claim or a volume.

use super::Code;
use crate::objects::{
    Claim, ObjectName, Pod, Volume,
    finalizers::{PV_PROTECTION, PVC_PROTECTION, has},
    pod::Mount,
    volume::Phase,
};

/// Whether a pod that has Succeeded or Failed still uses its claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FinishedPods {
    /// A finished pod uses its claims as long as the pod object exists, as in Kubernetes. It is the
    /// only safe choice while a node may still have the volume mounted.
    #[default]
    Hold,
    /// A finished pod does not use its claims, as in the original proposal of PVC protection. A
    /// claim can then be deleted while a slow node is still unmounting its volume.
    Release,
}

/// The name of a cached pod, and the pod, which does not contain its name.
pub type NamedPod<'a> = (&'a ObjectName, &'a Pod);

/// What keeps an object that is being deleted, or would keep it if it were deleted now.
#[derive(Clone, Debug, PartialEq)]
pub enum Holder<'a> {
    /// Pods that use the claim, at least one of which has not finished.
    Pods(Vec<NamedPod<'a>>),
    /// Pods that use the claim and have all finished.
    FinishedPods(Vec<NamedPod<'a>>),
    /// No pod uses the claim: pvc-protection is about to remove its finalizer.
    NoPod,
    /// The volume is Bound, so its claim keeps it. None if the volume has no claimRef.
    Claim(Option<&'a ObjectName>),
    /// The volume is bound to no claim: pv-protection is about to remove its finalizer.
    NoClaim,
    /// A finalizer of another controller, by its name.
    Finalizer(&'a str),
}

impl Holder<'_> {
    /// Returns the code by which Events, metrics and JSON output name this holder.
    pub fn code(&self) -> Code {
        match self {
            Self::Pods(_) => Code::InUse,
            Self::FinishedPods(_) => Code::FinishedPod,
            Self::NoPod => Code::NotInUse,
            Self::Claim(_) => Code::Bound,
            Self::NoClaim => Code::NotBound,
            Self::Finalizer(_) => Code::ForeignFinalizer,
        }
    }
}

/// Returns whether the pod uses the claim `name`.
///
/// A pod without a node does not use a claim, because the scheduler does not schedule a pod whose
/// claim is being deleted. A claim with the name of a pod's ephemeral volume counts as used only
/// if the pod owns it, and only until the kubelet has stopped the pod or the deletion of the pod
/// was forced: the pod object may then wait for the deletion of that claim, so the claim must not
/// wait for the pod.
///
/// Source: `podUsesPVC` in `pkg/controller/volume/pvcprotection/pvc_protection_controller.go`.
pub fn uses(pod: &Pod, name: &str, claim: &Claim, finished_pods: FinishedPods) -> bool {
    let counts = pod.scheduled && !(pod.finished && finished_pods == FinishedPods::Release);
    // It is looked up for ephemeral volumes only: a claim may have tens of thousands of owners.
    let owns = || {
        claim
            .controller()
            .is_some_and(|controller| pod.uid == controller)
    };
    let mounted = |mount: &Mount| !mount.ephemeral || (!pod.shut_down && owns());
    counts && pod.mounts.may_name(name, mounted)
}

/// Returns whether the volume is bound to a claim.
///
/// Source: `isBeingUsed` in `pkg/controller/volume/pvprotection/pv_protection_controller.go`.
pub fn is_bound(volume: &Volume) -> bool {
    volume.phase == Phase::Bound
}

/// Returns the code of the first of [`claim_holders`]; none if nothing keeps the claim. It
/// allocates nothing, because it is called for every claim that is being deleted at every scrape
/// of the metrics.
pub fn claim_code<'a>(
    name: &str,
    claim: &Claim,
    pods: impl IntoIterator<Item = &'a Pod>,
    finished_pods: FinishedPods,
) -> Option<Code> {
    if !has(&claim.finalizers, PVC_PROTECTION) {
        return foreign_code(&claim.finalizers);
    }
    let mut cause = Code::NotInUse;
    for pod in pods {
        // The names of one finished pod that uses the claim are enough: a tenant may have thousands
        // of such pods with a thousand names each.
        let settled = pod.finished && cause == Code::FinishedPod;
        if settled || !uses(pod, name, claim, finished_pods) {
            continue;
        }
        if !pod.finished {
            return Some(Code::InUse);
        }
        cause = Code::FinishedPod;
    }
    Some(cause)
}

/// Returns the code of the first of [`volume_holders`].
pub fn volume_code(volume: &Volume) -> Option<Code> {
    volume_holders(volume).next().map(|holder| holder.code())
}

fn foreign_code(finalizers: &[Box<str>]) -> Option<Code> {
    (!finalizers.is_empty()).then_some(Code::ForeignFinalizer)
}

/// Returns what keeps the claim. The protection finalizer comes first, because other controllers
/// may wait for it; then each other finalizer, in the order of the list. Only those of the `pods`
/// that use the claim are holders, and only if the claim has the protection finalizer.
pub fn claim_holders<'a>(
    name: &str,
    claim: &'a Claim,
    pods: &[NamedPod<'a>],
    finished_pods: FinishedPods,
) -> Vec<Holder<'a>> {
    let used = |(_, pod): &&NamedPod<'_>| uses(pod, name, claim, finished_pods);
    let users: Vec<NamedPod<'a>> = pods.iter().filter(used).copied().collect();
    let in_use = claim_code(
        name,
        claim,
        users.iter().map(|(_, pod)| *pod),
        finished_pods,
    );
    let own = match in_use {
        Some(Code::NotInUse) => Some(Holder::NoPod),
        Some(Code::FinishedPod) => Some(Holder::FinishedPods(users)),
        Some(Code::InUse) => Some(Holder::Pods(users)),
        _ => None,
    };
    own.into_iter()
        .chain(foreign(&claim.finalizers, PVC_PROTECTION))
        .collect()
}

/// Returns what keeps the volume: the protection finalizer first, then each other finalizer.
pub fn volume_holders(volume: &Volume) -> impl Iterator<Item = Holder<'_>> {
    let own = has(&volume.finalizers, PV_PROTECTION).then(|| {
        if is_bound(volume) {
            Holder::Claim(volume.claim_ref.as_ref().map(|claim| &claim.name))
        } else {
            Holder::NoClaim
        }
    });
    own.into_iter()
        .chain(foreign(&volume.finalizers, PV_PROTECTION))
}

fn foreign<'a>(finalizers: &'a [Box<str>], own: &'static str) -> impl Iterator<Item = Holder<'a>> {
    let foreign = finalizers.iter().filter(move |each| ***each != *own);
    foreign.map(|finalizer| Holder::Finalizer(finalizer))
}
