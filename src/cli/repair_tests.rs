//! Tests of how `trash repair` reports what the API server answers to the creation of a volume.

use super::*;
use crate::{
    cli::{
        test_answers::{answering, failure},
        trash_common::UNREADABLE,
    },
    objects::{ObjectName, Tracked as _, saved_volume::WholeVolumeWire, trash::TRASH},
};
use serde_json::{Value, json};

/// The volume `pv` of the deleted claim `ns/data`.
fn volume() -> Value {
    let record = json!({"policy": "Delete", "windowSeconds": 3600,
        "claim": {"namespace": "ns", "name": "data", "uid": "1"}});
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": "pv", "uid": "v", "annotations": {TRASH: record.to_string()}},
        "spec": {"persistentVolumeReclaimPolicy": "Retain", "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "ns", "name": "data", "uid": "1"},
            "csi": {"driver": "d", "volumeHandle": "h"}},
    })
}

/// The exit code if the API server answers the creation of the volume with this.
async fn created(code: u16, answer: &Value) -> ExitCode {
    let wire: WholeVolumeWire = serde_json::from_value(volume()).expect("a volume");
    let removed = Removed {
        copy: ObjectName::new("volume-warden", "copy"),
        uid: "v".into(),
        whole: WholeVolume::track(wire),
        refused: None,
    };
    let created = create_all(&answering(code, answer), &[removed], true).await;
    created.expect("printed")
}

/// With a status of 500 or more, the API server may have stored the volume.
#[tokio::test]
async fn only_a_creation_that_was_certainly_refused_is_reported_as_refused() {
    assert_eq!(created(201, &volume()).await, ExitCode::SUCCESS);
    for (code, reason) in [(403, "Forbidden"), (409, "AlreadyExists")] {
        let refused = created(code, &failure(code, reason)).await;
        assert_eq!(refused, ExitCode::FAILURE, "{code}");
    }
    for (code, answer) in [
        (500, failure(500, "InternalError")),
        (504, failure(504, "Timeout")),
        (502, json!({"error": "a proxy"})),
    ] {
        let unknown = created(code, &answer).await;
        assert_eq!(unknown, ExitCode::from(UNREADABLE), "{code}");
    }
}
