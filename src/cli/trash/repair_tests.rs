//! Tests of how `trash repair` creates volumes, and reports what the API server answers.

use super::*;
use crate::{
    cli::user::exit_code::EXIT_UNKNOWN,
    cluster::test_server::{answering, failure, uncertain},
    objects::{
        ObjectName, Tracked as _,
        saved_volume::{self, WholeVolumeWire},
        trash::TRASH,
    },
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;

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
async fn created(answer: (u16, Value)) -> ExitCode {
    let wire: WholeVolumeWire = serde_json::from_value(volume()).expect("a volume");
    let removed = Removed {
        copy: ObjectName::new("volume-warden", "copy"),
        uid: "v".into(),
        whole: WholeVolume::track(wire),
        refused: None,
    };
    let created = create_all(&answering(move |_, _| answer.clone()), &[&removed], true).await;
    created.expect("printed")
}

/// With a status of 500 or more, the API server may have stored the volume.
#[tokio::test]
async fn only_a_creation_that_was_certainly_refused_is_reported_as_refused() {
    assert_eq!(created((201, volume())).await, ExitCode::SUCCESS);
    for (code, reason) in [(403, "Forbidden"), (409, "AlreadyExists")] {
        let refused = created(failure(code, reason)).await;
        assert_eq!(refused, ExitCode::FAILURE, "{code}");
    }
    for answer in uncertain() {
        let code = answer.0;
        let unknown = created(answer).await;
        assert_eq!(unknown, ExitCode::from(EXIT_UNKNOWN), "{code}");
    }
}

#[derive(Debug, clap::Parser)]
struct Flags {
    #[command(flatten)]
    repair: RepairOptions,
}

/// The volumes and the copy that exist.
#[derive(Clone)]
struct State {
    volumes: Vec<Value>,
    copied: Value,
}

/// The exit code, and the handles of the volumes that are created, if `change` changes the state
/// after the volumes are listed, and the user then confirms.
async fn repaired(change: impl FnOnce(&mut State)) -> (ExitCode, Vec<String>) {
    let state = State {
        volumes: Vec::new(),
        copied: volume(),
    };
    let state = Arc::new(Mutex::new(state));
    let created = Arc::new(Mutex::new(Vec::new()));
    let (now, log) = (state.clone(), created.clone());
    let client = answering(move |head, body| {
        let now = now.lock().clone();
        let items = if head.uri.path().ends_with("/configmaps") {
            let name = saved_volume::name_of("volume-warden", "v");
            vec![saved_volume::config_map(&name, &now.copied.to_string())]
        } else {
            now.volumes
        };
        let answer = if head.method == http::Method::GET {
            json!({"metadata": {"resourceVersion": "1"}, "items": items})
        } else {
            let handle = body.pointer("/spec/csi/volumeHandle").cloned();
            let handle = handle.as_ref().and_then(Value::as_str).map(str::to_owned);
            log.lock().extend(handle);
            body
        };
        (200, answer)
    });
    let flags = <Flags as clap::Parser>::try_parse_from([""]).expect("flags");
    let confirmed = || {
        change(&mut state.lock());
        Ok(true)
    };
    let code = create_confirmed(&client, &flags.repair, confirmed).await;
    let created = created.lock().clone();
    (code.expect("printed"), created)
}

/// The copies are read again after the user has confirmed, because that may have taken long.
#[tokio::test]
async fn only_what_was_shown_is_created() {
    let unchanged = repaired(|_| {}).await;
    assert_eq!(unchanged, (ExitCode::SUCCESS, vec!["h".to_owned()]));
    let changed = repaired(|state| state.copied["spec"]["csi"]["volumeHandle"] = "other".into());
    assert_eq!(changed.await, (ExitCode::FAILURE, Vec::new()));
    let exists = repaired(|state| state.volumes.push(volume()));
    assert_eq!(exists.await, (ExitCode::FAILURE, Vec::new()));
    let refused = repaired(|state| {
        let mut other = volume();
        other["metadata"] = json!({"name": "other", "uid": "o"});
        state.volumes.push(other);
    });
    assert_eq!(refused.await, (ExitCode::FAILURE, Vec::new()));
}
