//! Intended differences between Volume Warden and the in-tree controllers, each with its reason. A
//! test fails if a difference no longer exists: here for claims and volumes, in
//! [`super::retention`] for the claims of StatefulSets.

use super::{
    FOREIGN, bound_to_disk, ephemeral, no_finalizers, on_node,
    scenario::{
        Object::{Claim, Pod, Volume},
        Step::{Create, Delete, Differ, Expect, OnlyWardenRefuses, Patch, Stays, TryCreate},
        run,
    },
};
use anyhow::Result;
use serde_json::json;
use volume_warden_controlplane::Kubernetes;

/// The intended differences. Each has a scenario; a variant without one would be dead code.
#[derive(Clone, Copy, Debug)]
pub enum Difference {
    ShutDownPod,
    DoublyPreBoundVolume,
    PodForTerminatingClaim,
    OwnerAtCreation,
    ShortScaleDown,
    ScaledDownWithoutPod,
    ClaimsWithoutPods,
    AnotherController,
    PodBlockedByClaim,
}

impl Difference {
    pub fn reason(self) -> &'static str {
        match self {
            Self::ShutDownPod => {
                "Intended difference: when a pod is shut down while its container statuses still \
                 say running, nothing triggers the in-tree controller, so an ephemeral claim waits \
                 for the deletion of the pod object. Volume Warden reacts to the shutdown."
            }
            Self::DoublyPreBoundVolume => {
                "Intended difference: in-tree binds a volume that is pre-bound on both sides and \
                 is being deleted. Volume Warden refuses, as the PV-protection proposal asks."
            }
            Self::PodForTerminatingClaim => {
                "Intended difference: in-tree admits a pod that bypasses the scheduler and uses a \
                 claim that is being deleted, and leaves the refusal to the kubelet. Volume Warden \
                 refuses the pod."
            }
            Self::OwnerAtCreation => {
                "Intended difference: in-tree sets the owner of a set's claim in a later sync, so \
                 a set that is deleted earlier leaves the claim behind. With Volume Warden the \
                 claim is created with its owner."
            }
            Self::ShortScaleDown => {
                "Intended difference: with OrderedReady in-tree does not remove the condemned pod \
                 as owner of its claim when the pod is wanted again before it is deleted; in-tree \
                 deletes the claim, and may wait forever for another event. Volume Warden keeps \
                 the claim, as in-tree does with Parallel: outside the StatefulSet controller \
                 anything else loses data."
            }
            Self::ScaledDownWithoutPod => {
                "Intended difference: in-tree keeps a claim forever that is scaled down while it \
                 has no pod of the set. Volume Warden deletes the claim, because it marked \
                 the claim while its pod was wanted."
            }
            Self::ClaimsWithoutPods => {
                "Intended difference: in-tree does not apply a change of whenDeleted to claims of \
                 ordinals without a pod: claims to retain are deleted with the set, and claims to \
                 delete are retained. Volume Warden reconciles every claim."
            }
            Self::AnotherController => {
                "Intended difference: in-tree does not change a claim with another controller, and \
                 reports the conflict only where it would have written. Volume Warden always \
                 reports it."
            }
            Self::PodBlockedByClaim => {
                "Intended difference: a pod that cannot be created before its claim is deleted \
                 waits in-tree without a report, or with repeated failed creations. Volume Warden \
                 reports the claim that the pod waits for."
            }
        }
    }
}

#[tokio::test]
async fn a_shut_down_pod_releases_its_ephemeral_claim() -> Result<()> {
    let volumes = json!([
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        ephemeral("own"),
    ]);
    let pod = json!({"metadata": {"finalizers": [FOREIGN]}, "spec": {"nodeName": "node-1", "volumes": volumes}});
    let released: &[&str] = &[
        "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
        "pod p: Terminating Running [example.com/hold]",
    ];
    let shut_down = match Kubernetes::chosen()? {
        Kubernetes::V1_34 => Differ {
            difference: Difference::ShutDownPod,
            in_tree: &[
                "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
                "claim p-own: Terminating Pending [kubernetes.io/pvc-protection] of Pod/p",
                "pod p: Terminating Running [example.com/hold]",
            ],
            warden: released,
        },
        // The in-tree controller reacts to the shutdown, too.
        Kubernetes::V1_37 => Expect(released),
    };
    let steps = [
        Create(Claim("data"), json!({})),
        Create(Pod("p"), pod),
        // KWOK reports the containers as running until the pod is deleted.
        Expect(&[
            "claim data: Pending [kubernetes.io/pvc-protection]",
            "claim p-own: Pending [kubernetes.io/pvc-protection] of Pod/p",
            "pod p: Running [example.com/hold]",
        ]),
        Delete(Claim("data")),
        Delete(Claim("p-own")),
        Stays(&[
            "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
            "claim p-own: Terminating Pending [kubernetes.io/pvc-protection] of Pod/p",
            "pod p: Running [example.com/hold]",
        ]),
        Delete(Pod("p")),
        shut_down,
        Patch(Pod("p"), no_finalizers()),
        Expect(&[]),
    ];
    run("shut-down-pod", steps).await
}

#[tokio::test]
async fn a_doubly_pre_bound_volume_that_is_being_deleted_is_not_bound() -> Result<()> {
    let reserved = json!({"claimRef": {"namespace": "$NAMESPACE", "name": "data"}});
    let steps = [
        Create(
            Volume("disk"),
            json!({"metadata": {"finalizers": [FOREIGN]}, "spec": reserved}),
        ),
        Expect(&["volume disk: Available [example.com/hold kubernetes.io/pv-protection]"]),
        Delete(Volume("disk")),
        Expect(&["volume disk: Terminating Available [example.com/hold]"]),
        Create(Claim("data"), bound_to_disk()),
        // The binder may process the claim only at its next resync.
        OnlyWardenRefuses(
            Difference::DoublyPreBoundVolume,
            "update persistentvolumes disk",
        ),
        Differ {
            difference: Difference::DoublyPreBoundVolume,
            in_tree: &[
                "claim data: Bound [kubernetes.io/pvc-protection]",
                "volume disk: Terminating Bound [example.com/hold]",
            ],
            warden: &[
                "claim data: Pending [kubernetes.io/pvc-protection]",
                "volume disk: Terminating Available [example.com/hold]",
            ],
        },
        Delete(Claim("data")),
        Patch(Volume("disk"), no_finalizers()),
        Expect(&[]),
    ];
    run("pre-bound", steps).await
}

#[tokio::test]
async fn a_pod_with_a_node_is_refused_if_its_claim_is_being_deleted() -> Result<()> {
    let steps = [
        Create(Claim("data"), json!({})),
        Create(Pod("user"), on_node()),
        Delete(Claim("data")),
        Stays(&[
            "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
            "pod user: Running",
        ]),
        TryCreate(Pod("late"), on_node()),
        OnlyWardenRefuses(Difference::PodForTerminatingClaim, "create pods late"),
        Differ {
            difference: Difference::PodForTerminatingClaim,
            in_tree: &[
                "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
                "pod late: Running",
                "pod user: Running",
            ],
            warden: &[
                "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
                "pod user: Running",
            ],
        },
        Delete(Pod("user")),
        // In-tree, the pod `late` now holds the claim.
        Differ {
            difference: Difference::PodForTerminatingClaim,
            in_tree: &[
                "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
                "pod late: Running",
            ],
            warden: &[],
        },
    ];
    run("late-user", steps).await
}
