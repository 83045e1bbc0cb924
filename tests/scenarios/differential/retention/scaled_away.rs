//! Where ours differs from in-tree on purpose in what becomes of claims that are scaled away. Whoever loses a difference by accident fails
//! here.

use super::{RETAIN_DELETE, create, scale};
use crate::differential::{
    FOREIGN,
    differences::Difference,
    free,
    scenario::{
        Lines,
        Object::{Claim, Pod, Set},
        Step::{Delete, Differ, Expect, Patch, Stays},
        run,
    },
};
use anyhow::Result;
use serde_json::{Value, json};

/// A set of two pods that run.
const BOTH: Lines = &[
    "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
    "claim data-web-1: Pending [kubernetes.io/pvc-protection]",
    "pod web-0: Running of StatefulSet/web",
    "pod web-1: Running of StatefulSet/web",
    "set web: 2 of 2 ready",
];

/// Somebody keeps the pod when it is deleted.
fn held() -> Value {
    json!({"metadata": {"finalizers": [FOREIGN]}})
}

/// S5. The finalizer on the claim shows each step of what in-tree does.
#[tokio::test]
async fn a_claim_outlives_a_short_scale_down_in_order() -> Result<()> {
    let steps = [
        create(Set("web"), 2, RETAIN_DELETE, "OrderedReady"),
        Expect(BOTH),
        Patch(
            Claim("data-web-1"),
            json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection", FOREIGN]}}),
        ),
        Patch(Pod("web-1"), held()),
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
            ours: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "claim data-web-1: Pending [kubernetes.io/pvc-protection example.com/hold]",
                "pod web-0: Running of StatefulSet/web",
                "pod web-1: Terminating Running [example.com/hold] of StatefulSet/web",
                "set web: 2 of 2 ready",
            ],
        },
        Patch(Pod("web-1"), free()),
        Differ {
            difference: Difference::ShortScaleDown,
            in_tree: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "claim data-web-1: Terminating Pending [example.com/hold] of Pod/web-1 (gone)",
                "pod web-0: Running of StatefulSet/web",
                "set web: 1 of 2 ready",
            ],
            ours: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "claim data-web-1: Pending [kubernetes.io/pvc-protection example.com/hold]",
                "pod web-0: Running of StatefulSet/web",
                "pod web-1: Running of StatefulSet/web",
                "set web: 2 of 2 ready",
            ],
        },
        Patch(Claim("data-web-1"), free()),
        // Nothing tells in-tree that the claim is gone, so it goes on waiting.
        Differ {
            difference: Difference::ShortScaleDown,
            in_tree: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "pod web-0: Running of StatefulSet/web",
                "set web: 1 of 2 ready",
            ],
            ours: BOTH,
        },
        // A change that means nothing makes it look.
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
            ours: BOTH,
        },
    ];
    run("short-in-order", steps).await
}

/// S6: there in-tree agrees with us.
#[tokio::test]
async fn a_claim_outlives_a_short_scale_down_in_parallel() -> Result<()> {
    let steps = [
        create(Set("web"), 1, RETAIN_DELETE, "Parallel"),
        Expect(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
            "pod web-0: Running of StatefulSet/web",
            "set web: 1 of 1 ready",
        ]),
        Patch(Pod("web-0"), held()),
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
        Patch(Pod("web-0"), free()),
        Stays(&[
            "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
            "pod web-0: Running of StatefulSet/web",
            "set web: 1 of 1 ready",
        ]),
    ];
    run("short-in-parallel", steps).await
}

/// S3. While the first pod ends, nobody makes the second one anew, and then it is not wanted any more.
#[tokio::test]
async fn a_claim_without_a_pod_is_scaled_away_too() -> Result<()> {
    let steps = [
        create(Set("web"), 2, RETAIN_DELETE, "OrderedReady"),
        Expect(BOTH),
        Patch(Pod("web-0"), held()),
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
            difference: Difference::ScaledAwayWithoutPod,
            in_tree: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "claim data-web-1: Pending [kubernetes.io/pvc-protection]",
                "pod web-0: Terminating Running [example.com/hold] of StatefulSet/web",
                "set web: 1 of 1 ready",
            ],
            ours: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "pod web-0: Terminating Running [example.com/hold] of StatefulSet/web",
                "set web: 1 of 1 ready",
            ],
        },
        Patch(Pod("web-0"), free()),
        Differ {
            difference: Difference::ScaledAwayWithoutPod,
            in_tree: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "claim data-web-1: Pending [kubernetes.io/pvc-protection]",
                "pod web-0: Running of StatefulSet/web",
                "set web: 1 of 1 ready",
            ],
            ours: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "pod web-0: Running of StatefulSet/web",
                "set web: 1 of 1 ready",
            ],
        },
    ];
    run("without-pod", steps).await
}

/// S3. A pod that was taken out of its set by hand keeps its claim, though it is scaled away, for as long as it is there.
#[tokio::test]
async fn a_claim_is_scaled_away_when_a_released_pod_is_done_with_it() -> Result<()> {
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
            difference: Difference::ScaledAwayWithoutPod,
            in_tree: &[
                "claim data-web-0: Pending [kubernetes.io/pvc-protection]",
                "set web: 0 of 0 ready",
            ],
            ours: &["set web: 0 of 0 ready"],
        },
    ];
    run("released-pod", steps).await
}
