//! Tests of what the reconciler reports about its writes.

use super::*;
use crate::{
    cluster::{
        Apply, Elector, Feed, Lane, LiveGet, SharedList,
        test_server::{answering, failure},
    },
    components::pvc_provisioner::{
        Caches, Notices, Options, TemplatePolicy, Waiting, options::Authorize, tests::user,
        view::Wait,
    },
    objects::{claim::ClaimWire, pod::PodWire},
    telemetry::Metrics,
};
use kube::Client;
use parking_lot::Mutex;
use serde_json::json;

/// The notes of the Events that were sent.
type Notes = Arc<Mutex<Vec<String>>>;

/// An API server that answers each patch of a claim with this code, and accepts Events.
fn api_server(code: u16, notes: Notes) -> Client {
    answering(move |head, sent| {
        if head.uri.path().contains("/events") {
            let note = sent["note"].as_str().unwrap_or_default().to_owned();
            notes.lock().push(note);
            (201, sent)
        } else if code == 404 {
            failure(code, "NotFound")
        } else {
            (code, json!({"metadata": {}}))
        }
    })
}

fn claim() -> ClaimWire {
    let claim = json!({"metadata": {"namespace": "ns", "name": "c", "uid": "u",
        "resourceVersion": "1", "annotations": {AWAITING_POD: "2026-01-01T00:00:00Z"}}});
    serde_json::from_value(claim).expect("a claim")
}

/// A reconciler whose watches have delivered the claim `ns/c` and these pods.
fn reconciler(client: &Client, pods: Vec<PodWire>) -> PvcProvisionerReconciler {
    let metrics = Arc::new(Metrics::new());
    let (lead, leadership) = Elector::for_test();
    lead.replace(Some(Instant::now() + Duration::from_secs(600)));
    let apply = Apply::new(client.clone(), leadership, 1, false, metrics.clone());
    let apply = Arc::new(apply);
    PvcProvisionerReconciler {
        caches: Caches {
            claims: Feed::filled(vec![claim()]),
            pods: Feed::filled(pods),
            policy: Arc::default(),
        },
        live_claims: LiveGet::new(metrics.clone(), client),
        live_pod: LiveGet::new(metrics.clone(), client),
        live_pods: SharedList::new(metrics, client),
        apply: apply.clone(),
        options: Arc::new(Options {
            controller_id: Default::default(),
            strict_templates: false,
            templates: TemplatePolicy::default(),
            authorize_requester: Authorize::Off,
            orphan_grace: Duration::from_secs(60),
            block_owner_deletion: false,
        }),
        exempt: Vec::new(),
        notices: Notices::new(apply),
        waiting: Waiting::default(),
    }
}

/// Makes a pod the owner of a claim. Returns whether that succeeded, and the Events.
async fn given(code: u16) -> (bool, Vec<String>) {
    let notes = Notes::default();
    let reconciler = reconciler(&api_server(code, notes.clone()), Vec::new());
    let name = ObjectName::new("ns", "c");
    let user = user("p", true, true);
    let claim = Arc::new(Claim::from(claim()));
    reconciler.waiting.observe(&name, &claim);
    let given = reconciler.set_owner(&name, &claim, &user).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let notes = notes.lock().clone();
    (given.is_ok(), notes)
}

/// The claim was deleted, which the watch has not delivered yet. If it is created again, its own
/// Event says so.
#[tokio::test(start_paused = true)]
async fn no_event_says_that_a_claim_exists_which_does_not() {
    let (settled, notes) = given(404).await;
    assert_eq!((settled, notes), (false, Vec::new()));
    let (settled, notes) = given(200).await;
    assert_eq!((settled, notes.len()), (true, 1), "{notes:?}");
}

/// A pod that names the claim `c`.
fn pod() -> PodWire {
    let pod = json!({"metadata": {"namespace": "ns", "name": "p", "uid": "p"}, "spec": {
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]}});
    serde_json::from_value(pod).expect("a pod")
}

/// It may have been created while the pods were listed.
#[tokio::test(start_paused = true)]
async fn no_claim_is_deleted_that_a_pod_of_the_watch_names() {
    for (pods, deletes) in [(vec![pod()], false), (Vec::new(), true)] {
        let reconciler = reconciler(&api_server(200, Notes::default()), pods);
        let (name, claim) = (ObjectName::new("ns", "c"), Arc::new(claim().into()));
        let proof = Proof::of_test(MAX_AGE);
        let collected = reconciler.delete_orphan(&name, &claim, proof).await;
        assert_eq!(collected.is_ok(), deletes, "{collected:?}");
    }
}

/// It may also have been created while the deletion waited for other writes.
#[tokio::test(start_paused = true)]
async fn no_claim_is_deleted_that_a_pod_names_by_then() {
    for named in [true, false] {
        let reconciler = reconciler(&api_server(200, Notes::default()), Vec::new());
        let (name, claim) = (ObjectName::new("ns", "c"), Arc::new(claim().into()));
        let lanes = &reconciler.apply.lanes;
        let permit = lanes.permit(Lane::Bulk, &name.namespace).await;
        let meanwhile = async {
            if named {
                reconciler.caches.pods.deliver(pod(), true);
            }
            drop(permit);
        };
        let collected = reconciler.delete_orphan(&name, &claim, Proof::of_test(MAX_AGE));
        let (collected, ()) = tokio::join!(collected, meanwhile);
        assert_eq!(collected.is_err(), named, "{collected:?}");
    }
}

/// A pending claim is not written for ten minutes after its last change, and a resync may be ten
/// minutes away then.
#[tokio::test(start_paused = true)]
async fn a_pending_claim_is_evaluated_again_once_it_is_quiet() {
    let reconciler = reconciler(&api_server(200, Notes::default()), Vec::new());
    let (name, claim) = (ObjectName::new("ns", "c"), Claim::from(claim()));
    let user = user("p", true, true);
    for decision in [
        Decision::Await(&user),
        Decision::Leave(reasons::CLAIM_PENDING),
    ] {
        let unchanged = Duration::from_secs(400);
        let view = View {
            claim: Some(&claim),
            users: &[],
            wait: Wait {
                unchanged,
                ..Wait::default()
            },
        };
        let followed = reconciler.follow::<()>(&name, &view, decision);
        let ControlFlow::Break(Requeue::After(left, _)) = followed else {
            panic!("{followed:?}");
        };
        assert_eq!(left, QUIET - unchanged);
    }
}
