//! Tests of the restore in another namespace, against a simulated API server.

use super::*;
use crate::{
    cluster::test_server::{answering, failure},
    objects::trash::{PURGE, TRASH},
};
use parking_lot::Mutex;
use std::sync::Arc;

/// A volume of the deleted claim `shop/data`, with `changes` merged over it.
fn volume(name: &str, deleted: &str, changes: &Value) -> Value {
    let record = json!({
        "policy": "Delete", "windowSeconds": 3600, "deletedAt": deleted,
        "claim": {"namespace": "shop", "name": "data", "uid": "gone", "namespaceUid": "earlier",
            "labels": json!({"app": "photos", "volume-warden.dev/managed-by": "x"}).to_string(),
            "annotations": json!({"team": "a", "pv.kubernetes.io/bind-completed": "y"}).to_string()},
    });
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "7",
            "annotations": {TRASH: record.to_string()}},
        "spec": {"persistentVolumeReclaimPolicy": "Retain", "storageClassName": "fast",
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "shop", "name": "data", "uid": "gone"}},
        "status": {"phase": "Released"},
    });
    json_patch::merge(&mut volume, changes);
    volume
}

/// What the API server got: the method, the path and the body of each write.
type Writes = Arc<Mutex<Vec<(String, Value)>>>;

/// An API server with these volumes, which answers a patch of a volume with this.
fn server(volumes: Vec<Value>, patched: (u16, Value)) -> (Client, Writes) {
    let writes = Writes::default();
    let got = writes.clone();
    let list = json!({"kind": "PersistentVolumeList", "apiVersion": "v1", "metadata": {},
        "items": volumes});
    let client = answering(move |head, body| {
        let call = format!("{} {}", head.method, head.uri.path());
        let answer = match head.method {
            http::Method::GET if call.ends_with("/persistentvolumes") => (200, list.clone()),
            http::Method::POST => {
                let mut claim = body.clone();
                claim["metadata"]["uid"] = json!("new");
                claim["metadata"]["resourceVersion"] = json!("9");
                (201, claim)
            }
            http::Method::PATCH if call.contains("/persistentvolumes/") => patched.clone(),
            http::Method::GET => {
                let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                        "metadata": {"name": "data", "uid": "new"}, "status": {"phase": "Bound"}});
                (200, claim)
            }
            _ => (
                200,
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}}),
            ),
        };
        if head.method != http::Method::GET {
            got.lock().push((call, body));
        }
        answer
    });
    (client, writes)
}

const WANTED: Restoration<'static> = Restoration {
    namespace: "other",
    deleted: "data",
    volume: None,
    name: "data",
    from: Some("shop"),
    cluster_flags: "",
};

/// The writes of a restore, and whether it succeeded.
async fn restored(
    wanted: &Restoration<'_>,
    volumes: Vec<Value>,
    patched: (u16, Value),
) -> (Vec<(String, Value)>, bool) {
    let (client, writes) = server(volumes, patched);
    let code = restore_in(&client, wanted, "shop", Duration::from_secs(5)).await;
    let writes = writes.lock().clone();
    (writes, code.expect("printed") == ExitCode::SUCCESS)
}

fn accepted() -> (u16, Value) {
    (200, volume("pv", DELETED, &json!({})))
}

const DELETED: &str = "2026-01-01T00:00:00Z";

#[tokio::test(start_paused = true)]
async fn the_claim_names_the_volume_and_the_volume_the_claim() {
    let purge = json!({"metadata": {"annotations": {PURGE: "gone"}}});
    let volumes = vec![volume("pv", DELETED, &purge)];
    let (writes, done) = restored(&WANTED, volumes, accepted()).await;
    assert!(done, "{writes:?}");
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "other", "labels": {"app": "photos"},
            "annotations": {"team": "a"}},
        "spec": {"volumeName": "pv", "storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}},
    });
    let create = "POST /api/v1/namespaces/other/persistentvolumeclaims";
    assert_eq!(writes[0], (create.to_owned(), claim));
    let give = json!([
        {"op": "test", "path": "/metadata/uid", "value": "uid-pv"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/spec/claimRef", "value": {"apiVersion": "v1",
            "kind": "PersistentVolumeClaim", "namespace": "other", "name": "data", "uid": "new"}},
        {"op": "remove", "path": "/metadata/annotations/volume-warden.dev~1purge"},
    ]);
    let path = "PATCH /api/v1/persistentvolumes/pv";
    assert_eq!(writes[1..], [(path.to_owned(), give)]);
}

#[tokio::test(start_paused = true)]
async fn the_volume_of_the_last_deletion_is_restored_or_the_named_one() {
    let volumes = || {
        vec![
            volume("first", "2025-12-31T00:00:00Z", &json!({})),
            volume("last", DELETED, &json!({})),
            volume(
                "purged",
                "2026-01-02T00:00:00Z",
                &json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
            ),
        ]
    };
    for (named, expected) in [(None, "last"), (Some("first"), "first")] {
        let wanted = Restoration {
            volume: named,
            ..WANTED
        };
        let (writes, _) = restored(&wanted, volumes(), accepted()).await;
        assert_eq!(writes[0].1["spec"]["volumeName"], expected);
    }
}

/// The server answers that the claim of the Bound volume does not exist any more.
#[tokio::test(start_paused = true)]
async fn no_earlier_claim_is_restored_while_the_volume_of_the_last_one_is_not_released() {
    let bound = json!({"status": {"phase": "Bound"}});
    let volumes = || {
        let last = volume("last", DELETED, &bound);
        vec![volume("first", "2025-12-31T00:00:00Z", &json!({})), last]
    };
    let (writes, done) = restored(&WANTED, volumes(), accepted()).await;
    assert!(writes.is_empty() && !done, "{writes:?}");
    let first = Restoration {
        volume: Some("first"),
        ..WANTED
    };
    let (writes, _) = restored(&first, volumes(), accepted()).await;
    assert_eq!(writes[0].1["spec"]["volumeName"], "first");
}

/// Two claims of this name were deleted within one second.
#[tokio::test(start_paused = true)]
async fn the_claim_that_was_bound_last_was_deleted_last() {
    let bound = |version: &str| json!({"spec": {"claimRef": {"resourceVersion": version}}});
    let of = |first: &Value, second: &Value| {
        vec![volume("a", DELETED, first), volume("b", DELETED, second)]
    };
    for (first, second, expected) in [("10", "9", "a"), ("9", "10", "b")] {
        let volumes = of(&bound(first), &bound(second));
        let (writes, _) = restored(&WANTED, volumes, accepted()).await;
        assert_eq!(writes[0].1["spec"]["volumeName"], expected);
    }
    let (writes, done) = restored(&WANTED, of(&json!({}), &json!({})), accepted()).await;
    assert!(writes.is_empty() && !done, "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_for_what_is_not_in_the_trash() {
    let bound = json!({"status": {"phase": "Bound"}});
    let purging = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}});
    let elsewhere = json!({"metadata": {"annotations": {TRASH: "{}"}}});
    for changes in [bound, purging, elsewhere] {
        let volumes = vec![volume("pv", DELETED, &changes)];
        let (writes, done) = restored(&WANTED, volumes, accepted()).await;
        assert!(writes.is_empty() && !done, "{writes:?}");
    }
    let other = Restoration {
        volume: Some("other"),
        ..WANTED
    };
    let volumes = vec![volume("pv", DELETED, &json!({}))];
    let (writes, done) = restored(&other, volumes, accepted()).await;
    assert!(writes.is_empty() && !done, "{writes:?}");
}

/// A purge or another restore was faster, or the user may not change volumes.
#[tokio::test(start_paused = true)]
async fn a_claim_that_does_not_get_the_volume_is_deleted_again() {
    for refusal in [failure(422, "Invalid"), failure(403, "Forbidden")] {
        let volumes = vec![volume("pv", DELETED, &json!({}))];
        let (writes, done) = restored(&WANTED, volumes, refusal).await;
        assert!(!done);
        let (call, body) = writes.last().expect("a write");
        assert_eq!(
            call,
            "DELETE /api/v1/namespaces/other/persistentvolumeclaims/data"
        );
        let preconditions = json!({"uid": "new", "resourceVersion": "9"});
        assert_eq!(body["preconditions"], preconditions, "{body}");
    }
}

/// The volume may have been given to the claim.
#[tokio::test(start_paused = true)]
async fn a_claim_is_kept_if_it_is_not_known_whether_it_gets_the_volume() {
    for answer in [json!("a proxy"), json!({"error": "a proxy"})] {
        let volumes = vec![volume("pv", DELETED, &json!({}))];
        let (writes, done) = restored(&WANTED, volumes, (504, answer)).await;
        assert!(!done);
        let calls: Vec<_> = writes.iter().map(|(call, _)| call.as_str()).collect();
        assert_eq!(
            calls,
            [
                "POST /api/v1/namespaces/other/persistentvolumeclaims",
                "PATCH /api/v1/persistentvolumes/pv"
            ]
        );
    }
}
