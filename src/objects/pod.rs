//! Pods, as users of claims.
//!
//! Source: `pkg/controller/volume/pvcprotection/pvc_protection_controller.go` (`podUsesPVC`,
//! `podIsShutDown`) and `pkg/volume/util/util.go` (`IsPodTerminated`) of Kubernetes.

use super::{
    CompactText, Kind, ObjectName, Tracked, claim_requests::ClaimRequests, pod_protobuf,
    tracked::Decoder,
};
use std::sync::Arc;

#[cfg(test)]
pub use super::pod_wire::{ClaimSource, MAX_NAMES, PodSpec, PodVolume};
pub use super::pod_wire::{Mount, Mounts, PodWire};

/// The fields of a pod that the rules read. Pods without a claim among their volumes and without an
/// annotation about claim requests are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Distinguishes the pod from an earlier or later one of the same name.
    pub uid: CompactText,
    /// Whether `spec.nodeName` is set.
    pub scheduled: bool,
    /// Whether the phase is Succeeded or Failed.
    pub finished: bool,
    /// Whether the pod is being deleted.
    pub deleting: bool,
    /// Whether the pod is being deleted and no container status shows a running container.
    pub stopped: bool,
    /// Whether the pod is being deleted with a grace period of zero: the kubelet has finished or
    /// the deletion was forced, and only finalizers keep the pod object.
    pub shut_down: bool,
    /// The claims of the pod's volumes, in the order of `spec.volumes`. The pod uses the claim of
    /// an ephemeral volume only if it owns the claim.
    pub mounts: Mounts,
    /// The uid of the StatefulSet that controls the pod.
    pub stateful_set: Option<CompactText>,
    /// The claims that the pod requests by annotation.
    pub claim_requests: Option<Box<ClaimRequests>>,
}

impl Pod {
    /// Returns whether no container of the pod runs any more or will run.
    pub fn terminated(&self) -> bool {
        self.finished || self.stopped
    }

    /// Returns whether a volume of the pod has the claim with this name, or may have it because the
    /// pod names too many claims. For an ephemeral volume, it is not compared whether the pod owns
    /// the claim.
    pub fn may_name(&self, claim: &str) -> bool {
        self.mounts.may_name(claim, |_| true)
    }

    /// Returns the names of the claims of the pod's volumes, also of ephemeral volumes whose
    /// claims the pod does not own. None if there are too many.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<str>> {
        self.mounts.iter().map(|mount| &mount.claim)
    }
}

impl From<PodWire> for Pod {
    fn from(wire: PodWire) -> Self {
        let deleting = wire.metadata.deletion_timestamp.is_some();
        Self {
            scheduled: wire.is_scheduled(),
            finished: wire.status.finished(),
            deleting,
            stopped: deleting && wire.status.nothing_runs(),
            shut_down: deleting && wire.metadata.deletion_grace_period_seconds == Some(0),
            mounts: wire.mounts(),
            stateful_set: wire.stateful_set(),
            claim_requests: ClaimRequests::of(&wire).map(|requests| Box::new(requests.compact())),
            uid: wire.metadata.uid.unwrap_or_default().into(),
        }
    }
}

impl Tracked for Pod {
    type Wire = PodWire;
    const KIND: Kind = Kind::Pod;
    const DECODER: Option<Decoder<PodWire>> = Some(pod_protobuf::page);

    fn track(wire: PodWire) -> Option<Self> {
        Some(Self::from(wire)).filter(|pod| pod.mounts.name_any() || pod.claim_requests.is_some())
    }

    fn references(&self, name: &ObjectName) -> Vec<ObjectName> {
        self.claims()
            .map(|claim| ObjectName::new(name.namespace.clone(), claim.clone()))
            .collect()
    }

    fn may_refer_to_all(&self) -> bool {
        self.mounts.are_too_many()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A cluster has many pods, and each that uses a claim is in memory.
    #[test]
    fn a_pod_stays_small() {
        assert!(size_of::<Pod>() <= 88, "{}", size_of::<Pod>());
    }

    #[test]
    fn a_pod_has_its_mounts_in_their_order() {
        for claims in [vec![], vec!["a"], vec!["b", "a"]] {
            let volume = |claim| json!({"persistentVolumeClaim": {"claimName": claim}});
            let volumes: Vec<_> = claims.iter().map(volume).collect();
            let wire = json!({"metadata": {"name": "p"}, "spec": {"volumes": volumes}});
            let wire: PodWire = serde_json::from_value(wire).expect("a pod");
            let (mounts, same) = (wire.mounts(), wire.mounts());
            let found: Vec<_> = mounts.iter().map(|mount| &*mount.claim).collect();
            assert_eq!((found, &mounts), (claims, &same));
        }
    }

    fn with_claims(claims: impl Iterator<Item = String>) -> Pod {
        let volume = |claim| json!({"persistentVolumeClaim": {"claimName": claim}});
        let volumes: Vec<_> = claims.map(volume).collect();
        let wire = json!({"metadata": {"name": "p"}, "spec": {"volumes": volumes}});
        let wire: PodWire = serde_json::from_value(wire).expect("a pod");
        Pod::track(wire).expect("it names claims")
    }

    #[test]
    fn a_pod_that_names_too_many_claims_may_name_any() {
        let most = with_claims((0..3 * MAX_NAMES).map(|n| format!("c{}", n % MAX_NAMES)));
        assert_eq!(most.mounts.len(), MAX_NAMES, "each claim once");
        assert!(most.may_name("c0") && most.may_name("c999") && !most.may_name("other"));
        assert!(most.mounts.name_any() && !most.may_refer_to_all());
        let more = with_claims((0..=MAX_NAMES).map(|n| format!("c{n}")));
        assert!(more.mounts.is_empty(), "no name is kept");
        assert!(more.mounts.name_any() && more.may_name("other") && more.may_refer_to_all());
        assert_ne!(more.mounts, most.mounts);
    }

    /// The API server checks only that the names are not empty.
    #[test]
    fn a_name_that_no_claim_can_have_is_no_mount() {
        let (longest, longer) = ("a".repeat(253), "a".repeat(254));
        let names = ["?watch=1", "a/b", "A", &longer, &longest, "a.b-0"];
        let volume = |claim| json!({"persistentVolumeClaim": {"claimName": claim}});
        let volumes: Vec<_> = names.into_iter().map(volume).collect();
        let wire = json!({"metadata": {"name": "p"}, "spec": {"volumes": volumes}});
        let wire: PodWire = serde_json::from_value(wire).expect("a pod");
        let mounts = wire.mounts();
        let found: Vec<_> = mounts.iter().map(|mount| &*mount.claim).collect();
        assert_eq!(found, [&*longest, "a.b-0"]);
    }
}
