//! Where ours differs from in-tree on purpose in who owns a claim and what is told. Whoever loses a difference by accident fails here.

use super::{DELETE_RETAIN, RETAIN_DELETE, RETAIN_RETAIN, change_policy, create, scale};
use crate::differential::{
    FOREIGN,
    differences::Difference,
    free,
    scenario::{
        Object::{Claim, ConfigMap, Pod, Set},
        Owner,
        Step::{
            BornDifferent, Create, Delete, DeleteWith, Differ, Expect, Give, OnlyOursTells, Patch,
            Stays,
        },
        run,
    },
};
use anyhow::Result;
use kube::api::PropagationPolicy::Background;
use serde_json::json;

/// S1. The set is there before its first pod is wanted, so that Volume Warden has heard of it.
#[tokio::test]
async fn a_claim_is_born_with_its_owner() -> Result<()> {
    let steps = [
        create(Set("web"), 0, DELETE_RETAIN, "Parallel"),
        Stays(&["set web: 0 of 0 ready"]),
        scale(Set("web"), 1),
        Expect(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection] of StatefulSet/web",
            "pod web-0: Running of StatefulSet/web",
            "set web: 1 of 1 ready",
        ]),
        BornDifferent {
            difference: Difference::OwnerAtBirth,
            claim: "data-web-0",
            in_tree: "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
            ours: "claim data-web-0: Pending [kubernetes.io/pvc-protection] of StatefulSet/web",
        },
    ];
    run("born", steps).await
}

/// S9: of two claims in-tree forgets the one whose pod was scaled away.
#[tokio::test]
async fn claims_without_pods_are_kept_when_the_policy_changes_to_that() -> Result<()> {
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
            ours: &[
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
            ours: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "claim data-web-1: Pending [kubernetes.io/pvc-protection]",
            ],
        },
    ];
    run("to-retain", steps).await
}

/// S10: the other way round.
#[tokio::test]
async fn claims_without_pods_are_deleted_when_the_policy_changes_to_that() -> Result<()> {
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
            ours: &[
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
            ours: &[],
        },
    ];
    run("to-delete", steps).await
}

/// STS-19. The pod runs, which is when in-tree is silent.
#[tokio::test]
async fn another_controller_of_a_claim_is_told_of() -> Result<()> {
    let given = &[
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
        Give("data-web-0", Owner::Controller("boss")),
        Stays(given),
        // So that in-tree has looked at the set since.
        change_policy(Set("web"), RETAIN_DELETE),
        Stays(given),
        OnlyOursTells(
            Difference::AnotherController,
            "ConflictingController",
            "data-web-0",
        ),
    ];
    run("told", steps).await
}

/// STS-04: both wait for the claim to go, and only ours says for what.
#[tokio::test]
async fn a_pod_that_waits_for_its_claim_to_go_is_told_of() -> Result<()> {
    let held = json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection", FOREIGN]}});
    let steps = [
        create(Set("web"), 1, RETAIN_RETAIN, "OrderedReady"),
        Expect(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
            "pod web-0: Running of StatefulSet/web",
            "set web: 1 of 1 ready",
        ]),
        Patch(Claim("data-web-0"), held),
        Delete(Claim("data-web-0")),
        Delete(Pod("web-0")),
        Stays(&[
            "claim data-web-0: Terminating Pending [example.com/hold]",
            "set web: 0 of 1 ready",
        ]),
        OnlyOursTells(Difference::StaleClaim, "PodBlockedByClaim", "data-web-0"),
        Patch(Claim("data-web-0"), free()),
        Expect(&[
            "claim data-web-0 (2nd): Pending [kubernetes.io/pvc-protection]",
            "pod web-0: Running of StatefulSet/web",
            "set web: 1 of 1 ready",
        ]),
    ];
    run("waiting", steps).await
}
