//! Where ours differs from in-tree on purpose, and why. Whoever loses a difference by accident fails: here for claims and volumes, in
//! [`super::retention`] for the claims of StatefulSets.

use super::{
    FOREIGN, ephemeral, free, of_disk, on_node,
    scenario::{
        Object::{Claim, Pod, Volume},
        Step::{Create, Delete, Differ, Expect, OnlyOursRefuses, Patch, Stays, Try},
        run,
    },
};
use anyhow::Result;
use serde_json::json;

/// The wanted differences. Each has a scenario: one without would be dead code.
#[derive(Clone, Copy, Debug)]
pub enum Difference {
    ShutDownPod,
    DoublyPreBoundVolume,
    LateUser,
    OwnerAtBirth,
    ShortScaleDown,
    ScaledAwayWithoutPod,
    ClaimsWithoutPods,
    AnotherController,
    StaleClaim,
}

impl Difference {
    pub fn reason(self) -> &'static str {
        match self {
            Self::ShutDownPod => {
                "Wanted difference: nothing wakes in-tree when a pod is shut down whose container statuses still say running, so \
                 an ephemeral claim waits for the pod object. Ours wakes up."
            }
            Self::DoublyPreBoundVolume => {
                "Wanted difference: a volume that is pre-bound on both sides and is being deleted still gets bound in-tree. Ours \
                 refuses, as the PV-protection proposal asks."
            }
            Self::LateUser => {
                "Wanted difference: in-tree admits a pod that passes by the scheduler to a claim that is being deleted, and leaves \
                 the refusal to the kubelet. Ours refuses the pod."
            }
            Self::OwnerAtBirth => {
                "Wanted difference: in-tree gives a set's claim its owner in a later sync, so a set that is deleted before leaves the \
                 claim behind. Ours has it created with its owner."
            }
            Self::ShortScaleDown => {
                "Wanted difference: with pods in order in-tree does not take back that a claim goes with its condemned pod when the \
                 pod is wanted again before it is gone, deletes the claim, and may wait for ever for another event. Ours keeps the \
                 claim, as in-tree does with pods in parallel: from outside the StatefulSet controller anything else loses data."
            }
            Self::ScaledAwayWithoutPod => {
                "Wanted difference: in-tree forgets a claim that is scaled away while it has no pod of the set, and keeps it for ever. \
                 Ours deletes it, by the mark that it got while its pod was wanted."
            }
            Self::ClaimsWithoutPods => {
                "Wanted difference: in-tree does not look at claims of ordinals without a pod, so a change of whenDeleted passes them \
                 by: what should be kept is deleted with the set, and what should be deleted is kept. Ours looks at every claim."
            }
            Self::AnotherController => {
                "Wanted difference: in-tree leaves a claim alone that somebody else controls, and says so only where it would have \
                 written. Ours always says so."
            }
            Self::StaleClaim => {
                "Wanted difference: a pod that cannot be created before its claim is gone waits in-tree without a word about it, or \
                 with one failed creation after the other. Ours says which claim it waits for."
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
    let steps = [
        Create(Claim("data"), json!({})),
        Create(Pod("p"), pod),
        // KWOK has the containers run, and says so until the end.
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
        Differ {
            difference: Difference::ShutDownPod,
            in_tree: &[
                "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
                "claim p-own: Terminating Pending [kubernetes.io/pvc-protection] of Pod/p",
                "pod p: Terminating Running [example.com/hold]",
            ],
            ours: &[
                "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
                "pod p: Terminating Running [example.com/hold]",
            ],
        },
        Patch(Pod("p"), free()),
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
        Create(Claim("data"), of_disk()),
        // The binder may look at it only when it looks at everything again.
        OnlyOursRefuses(
            Difference::DoublyPreBoundVolume,
            "update persistentvolumes disk",
        ),
        Differ {
            difference: Difference::DoublyPreBoundVolume,
            in_tree: &[
                "claim data: Bound [kubernetes.io/pvc-protection]",
                "volume disk: Terminating Bound [example.com/hold]",
            ],
            ours: &[
                "claim data: Pending [kubernetes.io/pvc-protection]",
                "volume disk: Terminating Available [example.com/hold]",
            ],
        },
        Delete(Claim("data")),
        Patch(Volume("disk"), free()),
        Expect(&[]),
    ];
    run("pre-bound", steps).await
}

#[tokio::test]
async fn a_late_pod_with_a_node_is_refused() -> Result<()> {
    let steps = [
        Create(Claim("data"), json!({})),
        Create(Pod("user"), on_node()),
        Delete(Claim("data")),
        Stays(&[
            "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
            "pod user: Running",
        ]),
        Try(Pod("late"), on_node()),
        OnlyOursRefuses(Difference::LateUser, "create pods late"),
        Differ {
            difference: Difference::LateUser,
            in_tree: &[
                "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
                "pod late: Running",
                "pod user: Running",
            ],
            ours: &[
                "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
                "pod user: Running",
            ],
        },
        Delete(Pod("user")),
        // In-tree the late user holds the claim now.
        Differ {
            difference: Difference::LateUser,
            in_tree: &[
                "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
                "pod late: Running",
            ],
            ours: &[],
        },
    ];
    run("late-user", steps).await
}
