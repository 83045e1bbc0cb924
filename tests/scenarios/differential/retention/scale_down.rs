//! Intended differences from in-tree for claims that a scale-down removes. A test here fails if a
//! difference no longer exists.

use super::{RETAIN_DELETE, create, scale};
use crate::differential::{
    FOREIGN,
    differences::Difference,
    no_finalizers,
    scenario::{
        Lines,
        Object::{Claim, Pod, Set},
        Step::{Delete, Differ, Expect, Patch, Stays},
        run,
    },
};
use anyhow::Result;
use serde_json::{Value, json};

/// A set with two running pods.
const TWO_PODS: Lines = &[
    "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
    "claim data-web-1: Pending [kubernetes.io/pvc-protection]",
    "pod web-0: Running of StatefulSet/web",
    "pod web-1: Running of StatefulSet/web",
    "set web: 2 of 2 ready",
];

/// A patch that adds a foreign finalizer, which keeps a deleted pod object.
fn add_finalizer() -> Value {
    json!({"metadata": {"finalizers": [FOREIGN]}})
}

/// S5. The finalizer on the claim makes each step of in-tree visible.
#[tokio::test]
async fn a_claim_outlives_a_short_scale_down_in_order() -> Result<()> {
    let steps = [
        create(Set("web"), 2, RETAIN_DELETE, "OrderedReady"),
        Expect(TWO_PODS),
        Patch(
            Claim("data-web-1"),
            json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection", FOREIGN]}}),
        ),
        Patch(Pod("web-1"), add_finalizer()),
        scale(Set("web"), 1),
        Stays(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
            "claim data-web-1: Pending [kubernetes.io/pvc-protection example.com/hold] of Pod/web-1",
            "pod web-0: Running of StatefulSet/web",
            "pod web-1: Terminating Running [example.com/hold] of StatefulSet/web",
            "set web: 2 of 1 ready",
        ]),
        scale(Set("web"), 2),
        Differ {
            difference: Difference::ShortScaleDown,
            in_tree: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "claim data-web-1: Pending [kubernetes.io/pvc-protection example.com/hold] of Pod/web-1",
                "pod web-0: Running of StatefulSet/web",
                "pod web-1: Terminating Running [example.com/hold] of StatefulSet/web",
                "set web: 2 of 2 ready",
            ],
            warden: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "claim data-web-1: Pending [kubernetes.io/pvc-protection example.com/hold]",
                "pod web-0: Running of StatefulSet/web",
                "pod web-1: Terminating Running [example.com/hold] of StatefulSet/web",
                "set web: 2 of 2 ready",
            ],
        },
        Patch(Pod("web-1"), no_finalizers()),
        Differ {
            difference: Difference::ShortScaleDown,
            in_tree: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "claim data-web-1: Terminating Pending [example.com/hold] of Pod/web-1 (gone)",
                "pod web-0: Running of StatefulSet/web",
                "set web: 1 of 2 ready",
            ],
            warden: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "claim data-web-1: Pending [kubernetes.io/pvc-protection example.com/hold]",
                "pod web-0: Running of StatefulSet/web",
                "pod web-1: Running of StatefulSet/web",
                "set web: 2 of 2 ready",
            ],
        },
        Patch(Claim("data-web-1"), no_finalizers()),
        // In-tree gets no event for the deletion of the claim, so it keeps waiting.
        Differ {
            difference: Difference::ShortScaleDown,
            in_tree: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "pod web-0: Running of StatefulSet/web",
                "set web: 1 of 2 ready",
            ],
            warden: TWO_PODS,
        },
        // An unrelated change triggers a sync in-tree.
        Patch(
            Set("web"),
            json!({"metadata": {"annotations": {"example.com/look": "here"}}}),
        ),
        Differ {
            difference: Difference::ShortScaleDown,
            in_tree: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "claim data-web-1 (2nd): Pending [kubernetes.io/pvc-protection]",
                "pod web-0: Running of StatefulSet/web",
                "pod web-1: Running of StatefulSet/web",
                "set web: 2 of 2 ready",
            ],
            warden: TWO_PODS,
        },
    ];
    run("short-in-order", steps).await
}

/// S6: in-tree and Volume Warden agree here.
#[tokio::test]
async fn a_claim_outlives_a_short_scale_down_in_parallel() -> Result<()> {
    let steps = [
        create(Set("web"), 1, RETAIN_DELETE, "Parallel"),
        Expect(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
            "pod web-0: Running of StatefulSet/web",
            "set web: 1 of 1 ready",
        ]),
        Patch(Pod("web-0"), add_finalizer()),
        scale(Set("web"), 0),
        Expect(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection] of Pod/web-0",
            "pod web-0: Terminating Running [example.com/hold] of StatefulSet/web",
            "set web: 1 of 0 ready",
        ]),
        scale(Set("web"), 1),
        Expect(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
            "pod web-0: Terminating Running [example.com/hold] of StatefulSet/web",
            "set web: 1 of 1 ready",
        ]),
        Patch(Pod("web-0"), no_finalizers()),
        Stays(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
            "pod web-0: Running of StatefulSet/web",
            "set web: 1 of 1 ready",
        ]),
    ];
    run("short-in-parallel", steps).await
}

/// S3. While the first pod terminates, the second one is not recreated. After the scale-down it is
/// no longer wanted.
#[tokio::test]
async fn a_scaled_down_claim_without_a_pod_is_deleted() -> Result<()> {
    let steps = [
        create(Set("web"), 2, RETAIN_DELETE, "OrderedReady"),
        Expect(TWO_PODS),
        Patch(Pod("web-0"), add_finalizer()),
        Delete(Pod("web-0")),
        Delete(Pod("web-1")),
        Stays(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
            "claim data-web-1: Pending [kubernetes.io/pvc-protection]",
            "pod web-0: Terminating Running [example.com/hold] of StatefulSet/web",
            "set web: 1 of 2 ready",
        ]),
        scale(Set("web"), 1),
        Differ {
            difference: Difference::ScaledDownWithoutPod,
            in_tree: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "claim data-web-1: Pending [kubernetes.io/pvc-protection]",
                "pod web-0: Terminating Running [example.com/hold] of StatefulSet/web",
                "set web: 1 of 1 ready",
            ],
            warden: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "pod web-0: Terminating Running [example.com/hold] of StatefulSet/web",
                "set web: 1 of 1 ready",
            ],
        },
        Patch(Pod("web-0"), no_finalizers()),
        Differ {
            difference: Difference::ScaledDownWithoutPod,
            in_tree: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "claim data-web-1: Pending [kubernetes.io/pvc-protection]",
                "pod web-0: Running of StatefulSet/web",
                "set web: 1 of 1 ready",
            ],
            warden: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "pod web-0: Running of StatefulSet/web",
                "set web: 1 of 1 ready",
            ],
        },
    ];
    run("without-pod", steps).await
}

/// S3. A pod that was removed from its set by a label change keeps its claim until the pod is
/// deleted, although the ordinal is scaled down.
#[tokio::test]
async fn a_scaled_down_claim_is_deleted_after_its_removed_pod() -> Result<()> {
    let steps = [
        create(Set("web"), 1, RETAIN_DELETE, "Parallel"),
        Expect(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
            "pod web-0: Running of StatefulSet/web",
            "set web: 1 of 1 ready",
        ]),
        Patch(
            Pod("web-0"),
            json!({"metadata": {"labels": {"app": "debugged"}}}),
        ),
        Expect(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
            "pod web-0: Running",
            "set web: 0 of 1 ready",
        ]),
        scale(Set("web"), 0),
        Stays(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
            "pod web-0: Running",
            "set web: 0 of 0 ready",
        ]),
        Delete(Pod("web-0")),
        Differ {
            difference: Difference::ScaledDownWithoutPod,
            in_tree: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "set web: 0 of 0 ready",
            ],
            warden: &["set web: 0 of 0 ready"],
        },
    ];
    run("released-pod", steps).await
}
