//! What the token of Volume Warden's service account permits on ConfigMaps.

use super::thief::{Thief, Write, delete, patch};
use crate::support::{Space, bare};
use anyhow::Result;
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

const LABEL: &str = "volume-warden.dev/saved-volume";
const ONLY_COPIES: &str = "may only write ConfigMaps with copies of volumes";
const ONLY_THE_COPY: &str = "may only change the copy in a ConfigMap";
const SIZE: &str = "may only write copies of at most 64 KiB";

fn copy(name: &str, changes: Value) -> Value {
    let mut copy = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {LABEL: "true"}}, "data": {"volume": "{}"},
    });
    json_patch::merge(&mut copy, &changes);
    copy
}

#[tokio::test]
async fn a_stolen_token_writes_no_config_map_but_copies_of_volumes() -> Result<()> {
    let space = Space::new(bare().await?, "stolen-copies").await?;
    let maps: Api<ConfigMap> = Api::namespaced(space.cluster.client(), &space.name);
    let unlabeled = json!({"metadata": {"labels": null}});
    for map in [
        copy("volume-warden-trash-1", json!({})),
        copy("volume-warden-trash-2", unlabeled.clone()),
        copy("settings", json!({})),
        copy("volume-warden-seen-namespaces", unlabeled.clone()),
    ] {
        let map = serde_json::from_value(map)?;
        maps.create(&PostParams::default(), &map).await?;
    }
    let thief = Thief::new(&space).await?;
    thief.grant("create,delete,patch", "configmaps").await?;
    let all = format!("/api/v1/namespaces/{}/configmaps", space.name);
    let create = |map: Value| -> Write { (Method::POST, all.clone(), map) };
    let remove = |name: &str| -> Write { (Method::DELETE, format!("{all}/{name}"), delete()) };
    let change = |name: &str, changes| patch(&format!("{all}/{name}"), changes);
    let data = json!({"data": {"volume": "x"}});
    let large = json!({"data": {"volume": "x".repeat(65537)}});
    let owned = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}});
    let refused = vec![
        (create(copy("other", json!({}))), ONLY_COPIES),
        (
            create(copy("volume-warden-trash-3", unlabeled.clone())),
            ONLY_COPIES,
        ),
        (change("settings", data.clone()), ONLY_COPIES),
        (change("volume-warden-trash-2", data.clone()), ONLY_COPIES),
        (change("volume-warden-trash-1", unlabeled), ONLY_COPIES),
        (remove("settings"), ONLY_COPIES),
        (remove("volume-warden-seen-namespaces"), ONLY_COPIES),
        (change("volume-warden-trash-1", owned), ONLY_THE_COPY),
        (change("volume-warden-trash-1", large), SIZE),
        (
            change("volume-warden-trash-1", json!({"data": {"a": "b"}})),
            SIZE,
        ),
        (
            change(
                "volume-warden-trash-1",
                json!({"binaryData": {"a": "YQ=="}}),
            ),
            SIZE,
        ),
    ];
    thief.all_are_refused(refused).await?;
    let permitted = vec![
        create(copy("volume-warden-trash-3", json!({}))),
        change("volume-warden-trash-1", data.clone()),
        change("volume-warden-seen-namespaces", data),
        remove("volume-warden-trash-1"),
    ];
    thief.all_are_permitted(permitted).await
}
