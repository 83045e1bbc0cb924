//! Attempts after a failed one: rows of the table test in Kubernetes.

use super::*;

/// Reconciles the claim a moment after everything before, so that a LIST began later.
async fn reconciled(scene: &Scene, claim: &str) -> Reconciled {
    tokio::time::sleep(Duration::from_millis(1)).await;
    let name = ObjectName::new("ns", claim);
    scene.reconciler.reconcile(&name).await
}

/// The claims whose finalizer a request removed, or was to remove.
fn released(scene: &Scene) -> Vec<String> {
    let requests = scene.server.requests.lock();
    let patches = requests.iter().filter(|each| each.starts_with("PATCH"));
    let claims = patches.filter_map(|patch| patch.rsplit('/').next());
    claims.map(str::to_owned).collect()
}

/// The claims `a` and `b`, whose pods have left; these requests fail.
fn failing(faults: &[&'static str]) -> Scene {
    let scene = scene(vec![]);
    *scene.server.faults.lock() = faults.to_vec();
    for name in ["a", "b"] {
        scene.feeds.pods.deliver(read(pod(name)), false);
    }
    scene
}

#[tokio::test(start_paused = true)]
async fn pvc_06_each_attempt_to_release_a_claim_lists_the_pods_again() {
    let scene = failing(&["PATCH", "PATCH"]);
    for fails in [true, true, false] {
        assert_eq!(reconciled(&scene, "b").await.is_err(), fails);
    }
    let counts = ["GET", "PATCH"].map(|method| scene.server.number_of(method));
    assert_eq!(counts, [3, 3]);
}

/// PVC-06: the LIST of the second attempt shows a pod that the watch has not delivered yet.
#[tokio::test(start_paused = true)]
async fn a_pod_created_after_a_failed_attempt_keeps_its_claim() {
    let scene = failing(&["PATCH"]);
    reconciled(&scene, "b").await.expect_err("the PATCH fails");
    scene.server.pods.lock().push(later_pod());
    reconciled(&scene, "b").await.expect_err("it is used");
    assert_eq!(released(&scene), ["b"], "only the failed attempt");
}

#[tokio::test(start_paused = true)]
async fn pvc_07_a_failed_list_delays_only_its_claim() {
    let scene = failing(&["GET"]);
    reconciled(&scene, "a").await.expect_err("the LIST fails");
    reconciled(&scene, "b").await.expect("no failure");
    assert_eq!(released(&scene), ["b"]);
    reconciled(&scene, "a").await.expect("no failure");
    assert_eq!(released(&scene), ["b", "a"]);
}

/// PVC-19: one event replaces the pod of a claim by a namesake without the claim.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_not_being_deleted_costs_no_request() {
    let scene = scene(vec![]);
    let mut living = claim("c");
    living["metadata"]["deletionTimestamp"].take();
    scene.feeds.claims.deliver(read(living), true);
    scene.feeds.pods.deliver(read(pod("c")), true);
    let mut namesake = pod("c");
    json_patch::merge(
        &mut namesake,
        &json!({"metadata": {"uid": "next"}, "spec": {"volumes": []}}),
    );
    scene.feeds.pods.deliver(read(namesake), true);
    let requeue = reconciled(&scene, "c").await.expect("no failure");
    assert_eq!(requeue, Requeue::OnEvent);
    assert_eq!(*scene.server.requests.lock(), [""; 0]);
}
