//! Tests of how many volumes count as removed without a purge.

use super::*;
use crate::{
    cluster::test_server::answering,
    objects::{
        ObjectName,
        saved_volume::{config_map, name_of},
        trash::TRASH,
        volume::VolumeWire,
    },
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The volume `pv` of the deleted claim `shop/data`, with `changes` merged over it.
fn volume(changes: Value) -> Value {
    let record = json!({"policy": "Delete", "windowSeconds": 3600,
        "claim": {"namespace": "shop", "name": "data", "uid": "1"}});
    let mut volume = json!({
        "metadata": {"name": "pv", "uid": "v", "annotations": {TRASH: record.to_string()}},
        "spec": {"persistentVolumeReclaimPolicy": "Retain", "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "shop", "name": "data", "uid": "1"},
            "csi": {"driver": "d", "volumeHandle": "h"}},
    });
    json_patch::merge(&mut volume, &changes);
    volume
}

/// How many volumes count, and how many `trash repair` lists, if there is a copy of [`volume`] and
/// these volumes exist.
async fn counted(present: &[Value], namespace: Option<&str>) -> [usize; 2] {
    let copy = config_map(&name_of("vw", "v"), &volume(json!({})).to_string());
    let volumes = present.to_vec();
    let client = answering(move |head, _| {
        let items = if head.uri.path().ends_with("/configmaps") {
            vec![copy.clone()]
        } else {
            volumes.clone()
        };
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": items});
        (200, list)
    });
    let mut store = Store::default();
    for each in present {
        let wire: VolumeWire = serde_json::from_value(each.clone()).expect("a volume");
        let name = wire.metadata.name.clone().unwrap_or_default();
        store.put(
            ObjectName::cluster_scoped(name.as_str()),
            Some(Arc::new(wire.into())),
        );
    }
    let counted = count_removed(&client, "vw", (&store, namespace)).await;
    let listed = plan(
        &repair::read_volumes(&client, "vw").await.expect("read"),
        &[],
    );
    [counted, listed.len()]
}

#[tokio::test]
async fn as_many_volumes_count_as_repair_lists() {
    let other = |name: &str, uid: &str, handle: &str| {
        volume(json!({"metadata": {"name": name, "uid": uid},
            "spec": {"csi": {"volumeHandle": handle}}}))
    };
    for (row, present, expected) in [
        ("it is removed", vec![], 1),
        ("it exists", vec![volume(json!({}))], 0),
        ("it was created again", vec![other("pv", "new", "h")], 0),
        ("another one has its name", vec![other("pv", "new", "i")], 1),
        ("another one has its data", vec![other("copy", "c", "h")], 1),
        ("another one exists", vec![other("other", "o", "i")], 1),
    ] {
        for namespace in [None, Some("shop")] {
            let found = counted(&present, namespace).await;
            assert_eq!(found, [expected; 2], "{row} {namespace:?}");
        }
    }
    let [elsewhere, _] = counted(&[], Some("other")).await;
    assert_eq!(elsewhere, 0);
}
