//! Intended differences from in-tree in the owners of claims and in published events. A test here
//! fails if a difference no longer exists.

use super::{DELETE_RETAIN, RETAIN_DELETE, RETAIN_RETAIN, change_policy, create, scale};
use crate::differential::{
    FOREIGN,
    differences::Difference,
    no_finalizers,
    scenario::{
        Object::{Claim, ConfigMap, Pod, Set},
        Owner,
        Step::{
            Create, Delete, DeleteWith, Differ, DiffersAtCreation, Expect, OnlyWardenPublishes,
            Patch, SetOwner, Stays,
        },
        run,
    },
};
use anyhow::Result;
use kube::api::PropagationPolicy::Background;
use serde_json::json;

/// S1. The set exists before its first pod is wanted, so that Volume Warden has received it from
/// its watch.
#[tokio::test]
async fn a_claim_is_created_with_its_owner() -> Result<()> {
    let steps = [
        create(Set("web"), 0, DELETE_RETAIN, "Parallel"),
        Stays(&["set web: 0 of 0 ready"]),
        scale(Set("web"), 1),
        Expect(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection] of StatefulSet/web",
            "pod web-0: Running of StatefulSet/web",
            "set web: 1 of 1 ready",
        ]),
        DiffersAtCreation {
            difference: Difference::OwnerAtCreation,
            claim: "data-web-0",
            in_tree: "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
            warden: "claim data-web-0: Pending [kubernetes.io/pvc-protection] of StatefulSet/web",
        },
    ];
    run("born", steps).await
}

/// S9: of two claims in-tree does not update the one whose pod was scaled down.
#[tokio::test]
async fn claims_without_pods_are_kept_when_the_policy_changes_to_retain() -> Result<()> {
    let steps = [
        create(Set("web"), 2, DELETE_RETAIN, "OrderedReady"),
        Expect(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection] of StatefulSet/web",
            "claim data-web-1: Pending [kubernetes.io/pvc-protection] of StatefulSet/web",
            "pod web-0: Running of StatefulSet/web",
            "pod web-1: Running of StatefulSet/web",
            "set web: 2 of 2 ready",
        ]),
        scale(Set("web"), 1),
        Stays(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection] of StatefulSet/web",
            "claim data-web-1: Pending [kubernetes.io/pvc-protection] of StatefulSet/web",
            "pod web-0: Running of StatefulSet/web",
            "set web: 1 of 1 ready",
        ]),
        change_policy(Set("web"), RETAIN_RETAIN),
        Differ {
            difference: Difference::ClaimsWithoutPods,
            in_tree: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "claim data-web-1: Pending [kubernetes.io/pvc-protection] of StatefulSet/web",
                "pod web-0: Running of StatefulSet/web",
                "set web: 1 of 1 ready",
            ],
            warden: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "claim data-web-1: Pending [kubernetes.io/pvc-protection]",
                "pod web-0: Running of StatefulSet/web",
                "set web: 1 of 1 ready",
            ],
        },
        DeleteWith(Set("web"), Background),
        Differ {
            difference: Difference::ClaimsWithoutPods,
            in_tree: &["claim data-web-0: Pending [kubernetes.io/pvc-protection]"],
            warden: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "claim data-web-1: Pending [kubernetes.io/pvc-protection]",
            ],
        },
    ];
    run("to-retain", steps).await
}

/// S10: the reverse of S9.
#[tokio::test]
async fn claims_without_pods_are_deleted_when_the_policy_changes_to_delete() -> Result<()> {
    let steps = [
        create(Set("web"), 2, RETAIN_RETAIN, "Parallel"),
        Expect(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
            "claim data-web-1: Pending [kubernetes.io/pvc-protection]",
            "pod web-0: Running of StatefulSet/web",
            "pod web-1: Running of StatefulSet/web",
            "set web: 2 of 2 ready",
        ]),
        scale(Set("web"), 1),
        Stays(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
            "claim data-web-1: Pending [kubernetes.io/pvc-protection]",
            "pod web-0: Running of StatefulSet/web",
            "set web: 1 of 1 ready",
        ]),
        change_policy(Set("web"), DELETE_RETAIN),
        Differ {
            difference: Difference::ClaimsWithoutPods,
            in_tree: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection] of StatefulSet/web",
                "claim data-web-1: Pending [kubernetes.io/pvc-protection]",
                "pod web-0: Running of StatefulSet/web",
                "set web: 1 of 1 ready",
            ],
            warden: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection] of StatefulSet/web",
                "claim data-web-1: Pending [kubernetes.io/pvc-protection] of StatefulSet/web",
                "pod web-0: Running of StatefulSet/web",
                "set web: 1 of 1 ready",
            ],
        },
        DeleteWith(Set("web"), Background),
        Differ {
            difference: Difference::ClaimsWithoutPods,
            in_tree: &["claim data-web-1: Pending [kubernetes.io/pvc-protection]"],
            warden: &[],
        },
    ];
    run("to-delete", steps).await
}

/// STS-19. The pod runs; in-tree publishes no event then.
#[tokio::test]
async fn another_controller_of_a_claim_is_reported() -> Result<()> {
    let with_other_owner = &[
        "claim data-web-0: Pending [kubernetes.io/pvc-protection] of ConfigMap/boss",
        "pod web-0: Running of StatefulSet/web",
        "set web: 1 of 1 ready",
    ];
    let steps = [
        Create(ConfigMap("boss"), json!({})),
        create(Set("web"), 1, DELETE_RETAIN, "Parallel"),
        Expect(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection] of StatefulSet/web",
            "pod web-0: Running of StatefulSet/web",
            "set web: 1 of 1 ready",
        ]),
        SetOwner("data-web-0", Owner::Controller("boss")),
        Stays(with_other_owner),
        // Makes in-tree sync the set.
        change_policy(Set("web"), RETAIN_DELETE),
        Stays(with_other_owner),
        OnlyWardenPublishes(
            Difference::AnotherController,
            "ConflictingController",
            "data-web-0",
        ),
    ];
    run("controlled", steps).await
}

/// STS-04: both wait for the deletion of the claim; only Volume Warden reports the claim.
#[tokio::test]
async fn a_pod_that_waits_for_the_deletion_of_its_claim_is_reported() -> Result<()> {
    let finalizers = json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection", FOREIGN]}});
    let steps = [
        create(Set("web"), 1, RETAIN_RETAIN, "OrderedReady"),
        Expect(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
            "pod web-0: Running of StatefulSet/web",
            "set web: 1 of 1 ready",
        ]),
        Patch(Claim("data-web-0"), finalizers),
        Delete(Claim("data-web-0")),
        Delete(Pod("web-0")),
        Stays(&[
            "claim data-web-0: Terminating Pending [example.com/hold]",
            "set web: 0 of 1 ready",
        ]),
        OnlyWardenPublishes(
            Difference::PodBlockedByClaim,
            "PodBlockedByClaim",
            "data-web-0",
        ),
        Patch(Claim("data-web-0"), no_finalizers()),
        Expect(&[
            "claim data-web-0 (2nd): Pending [kubernetes.io/pvc-protection]",
            "pod web-0: Running of StatefulSet/web",
            "set web: 1 of 1 ready",
        ]),
    ];
    run("waiting", steps).await
}
