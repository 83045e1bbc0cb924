//! What the door answers when the API server does not, and to whom.

use super::*;
use crate::{objects::stateful_set::StatefulSetWire, telemetry::Metrics};
use kube::{Client, client::Body};
use serde_json::{Value, json};

const CONTROLLER: &str = MAKERS[0];
const ALL_CONTROLLERS: &str = MAKERS[1];

/// Deletes its claims with it.
fn set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"namespace": "ns", "name": "web", "uid": "set-uid"},
        "spec": {
            "replicas": 1, "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
        },
    })
}

fn wire() -> StatefulSetWire {
    serde_json::from_value(set()).expect("a set")
}

/// A door before an API server that answers every GET with this.
fn door(told: Vec<StatefulSetWire>, code: u16, answer: &Value) -> Door {
    let answer = answer.to_string();
    let service = tower::service_fn(move |_: http::Request<Body>| {
        let body = Body::from(answer.clone().into_bytes());
        let response = http::Response::builder().status(code).body(body);
        std::future::ready(Ok::<_, std::io::Error>(response.expect("a response")))
    });
    let client = Client::new(service, "default");
    let metrics = Arc::new(Metrics::new());
    Door {
        sets: Feed::filled(told),
        live: LiveGet::namespaced(metrics, &client),
        departed: Arc::new(Departed::new(REMEMBERED)),
        namespace: None,
    }
}

fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason})
}

fn departed(door: Door) -> Door {
    let set = Arc::new(wire().into());
    door.departed.remember(ObjectName::new("ns", "web"), set);
    door
}

async fn answer(door: &Door, user: &str, owners: Value) -> &'static str {
    let request = json!({
        "uid": "review", "operation": "CREATE", "namespace": "ns", "name": "data-web-0", "userInfo": {"username": user},
        "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
        "object": {"metadata": {"name": "data-web-0", "ownerReferences": owners}},
    });
    let request = serde_json::from_value(request).expect("a request");
    match door.review(&request).await {
        Answer::Allow | Answer::Warn(_) => "allowed",
        Answer::Patch { .. } => "stamped",
        Answer::Deny { .. } => "refused",
        Answer::Unavailable(_) => "unavailable",
    }
}

#[tokio::test]
async fn what_is_known_and_who_asks_decide() {
    let (gone, broken) = (status(404, "NotFound"), status(500, "InternalError"));
    for (told, went, (code, body), [by_it, by_any]) in [
        (true, false, (200, set()), ["stamped", "stamped"]),
        (true, false, (404, gone.clone()), ["refused", "allowed"]),
        (true, false, (500, broken.clone()), ["stamped", "stamped"]),
        (false, true, (404, gone.clone()), ["refused", "allowed"]),
        (false, true, (500, broken.clone()), ["refused", "allowed"]),
        (false, false, (200, set()), ["stamped", "stamped"]),
        (false, false, (404, gone), ["refused", "allowed"]),
        (false, false, (500, broken), ["allowed", "allowed"]),
    ] {
        let told_of = if told { vec![wire()] } else { vec![] };
        let door = door(told_of, code, &body);
        let door = if went { departed(door) } else { door };
        let case = format!("told {told}, went {went}, GET {code}");
        let none = json!(null);
        assert_eq!(
            answer(&door, CONTROLLER, none.clone()).await,
            by_it,
            "{case}"
        );
        assert_eq!(
            answer(&door, ALL_CONTROLLERS, none.clone()).await,
            by_any,
            "{case}"
        );
        assert_eq!(answer(&door, "jane", none).await, "allowed", "{case}");
    }
}

/// The claim of an ephemeral volume may have a name that a set's claim could have.
#[tokio::test]
async fn a_claim_that_has_a_controller_is_its_business() {
    let door = departed(door(vec![], 404, &status(404, "NotFound")));
    let pod = json!([{"apiVersion": "v1", "kind": "Pod", "name": "data", "uid": "p", "controller": true}]);
    for user in [CONTROLLER, ALL_CONTROLLERS] {
        assert_eq!(answer(&door, user, pod.clone()).await, "allowed");
    }
}
