//! Tests of the two live evaluations that precede the deletion of a claim.

use super::*;
use crate::components::pvc_expiry::first_evaluations::EVALUATION_EXPIRES;

/// The time at which the claim was announced to expire, before the present time.
const ANNOUNCED: &str = "2026-01-28T00:00:00Z";

/// A claim that is due, both by the watches and by the API server.
fn due() -> Scene {
    Scene::new(json!({EXPIRES_AT: ANNOUNCED}))
}

/// What made the claim appear unused may last for seconds, such as a watch cache that is behind.
#[tokio::test(start_paused = true)]
async fn the_second_evaluation_is_a_minute_after_the_first() {
    let scene = due();
    scene.reconciler.reconcile(&name()).await.expect("waits");
    assert_ne!(scene.sent("", "").len(), 0, "the first evaluation");
    tokio::time::advance(Duration::from_secs(30)).await;
    let early = scene.reconciler.reconcile(&name()).await;
    let Ok(Requeue::After(delay, why)) = early else {
        panic!("{early:?}");
    };
    assert!(delay <= Duration::from_secs(30), "{delay:?}");
    assert!(why.contains("second live read"), "{why}");
    assert_eq!(scene.sent("", "").len(), 0, "no request is sent");
    tokio::time::advance(Duration::from_secs(31)).await;
    scene.reconciler.reconcile(&name()).await.expect("deleted");
    assert_eq!(scene.sent("DELETE", "").len(), 1);
}

fn disable_expiry(api: &Api) {
    *api.claim.lock() = claim(json!({EXPIRES_AT: ANNOUNCED, EXPIRE_UNUSED: "off"}));
}

fn postpone_expiry(api: &Api) {
    *api.claim.lock() = claim(json!({EXPIRES_AT: "2026-02-08T00:00:00Z"}));
}

fn create_pod(api: &Api) {
    api.pods.lock().push(pod());
}

/// Changes what the API server has.
type ChangeApi = fn(&Api);

/// The watches still show that the claim is due.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_not_due_by_a_live_read_is_kept() {
    let changes: [(&str, ChangeApi); 3] = [
        ("a user disables the expiry", disable_expiry),
        ("a user postpones the expiry", postpone_expiry),
        ("a pod uses the claim", create_pod),
    ];
    for (row, change) in changes {
        for is_second in [false, true] {
            let scene = due();
            if is_second {
                scene.reconciler.reconcile(&name()).await.expect("waits");
                tokio::time::advance(Duration::from_secs(61)).await;
            }
            change(&scene.api);
            let outcome = scene.reconciler.reconcile(&name()).await;
            let error = outcome.expect_err(row).to_string();
            assert!(error.contains("a live read shows"), "{row}: {error}");
            let case = format!("{row}, second evaluation: {is_second}");
            assert_eq!(scene.sent("DELETE", "").len(), 0, "{case}");
            assert_eq!(scene.reconciler.first_evaluations.waiting(), 0, "{case}");
        }
    }
}

/// The reconcile may be delayed, for example by errors of the API server.
#[tokio::test(start_paused = true)]
async fn a_claim_is_evaluated_twice_again_after_ten_minutes() {
    let scene = due();
    scene.reconciler.reconcile(&name()).await.expect("waits");
    tokio::time::advance(EVALUATION_EXPIRES + Duration::from_secs(1)).await;
    let late = scene.reconciler.reconcile(&name()).await;
    let Ok(Requeue::After(delay, why)) = late else {
        panic!("{late:?}");
    };
    assert_eq!(delay, Duration::from_secs(60), "{why}");
    assert_eq!(scene.sent("DELETE", "").len(), 0);
    tokio::time::advance(Duration::from_secs(61)).await;
    scene.reconciler.reconcile(&name()).await.expect("deleted");
    assert_eq!(scene.sent("DELETE", "").len(), 1);
}
