//! What the token of Volume Warden's service account permits on ConfigMaps.

use super::thief::{Thief, Write, delete, patch};
use crate::{
    pvc_trash::copies::INSTALLED,
    support::{Space, bare, quiet},
};
use anyhow::Result;
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

const LABEL: &str = "volume-warden.dev/saved-volume";
const ONLY_COPIES: &str = "may only write ConfigMaps with copies of volumes or lists";
const ONLY_DATA: &str = "may only change the data of a ConfigMap";
const SIZE: &str = "may only write copies of at most 64 KiB";

fn owned() -> Value {
    json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}})
}

fn finalized() -> Value {
    json!({"metadata": {"finalizers": ["a.b/c"]}})
}

fn copy(name: &str, changes: Value) -> Value {
    let mut copy = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {LABEL: "true"}}, "data": {"volume": "{}"},
    });
    json_patch::merge(&mut copy, &changes);
    copy
}

/// What this scenario creates in the namespace of Volume Warden.
const COPIES: [&str; 3] = [
    "volume-warden-trash-stolen",
    "volume-warden-trash-unlabeled",
    "volume-warden-seen-namespaces",
];

#[tokio::test]
async fn a_stolen_token_writes_no_config_map_but_copies_of_volumes() -> Result<()> {
    // Scenarios of namespace-gc must not find the list of seen namespaces.
    let (cluster, _alone) = quiet().await?;
    let space = Space::new(cluster, "stolen-copies").await?;
    let [mine, unlabeled_copy, seen] = COPIES;
    let unlabeled = json!({"metadata": {"labels": null}});
    for (namespace, map) in [
        (INSTALLED, copy(mine, json!({}))),
        (INSTALLED, copy(unlabeled_copy, unlabeled.clone())),
        (INSTALLED, copy(seen, unlabeled.clone())),
        (&space.name, copy("settings", json!({}))),
        (&space.name, copy("volume-warden-trash-1", json!({}))),
    ] {
        let maps: Api<ConfigMap> = Api::namespaced(space.cluster.client(), namespace);
        let map = serde_json::from_value(map)?;
        maps.create(&PostParams::default(), &map).await?;
    }
    let thief = Thief::new(&space).await?;
    thief.grant("create,delete,patch", "configmaps").await?;
    let all = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    let (own, other) = (all(INSTALLED), all(&space.name));
    let create = |all: &str, map: Value| -> Write { (Method::POST, all.to_owned(), map) };
    let remove =
        |all: &str, name: &str| -> Write { (Method::DELETE, format!("{all}/{name}"), delete()) };
    let change = |all: &str, name: &str, changes| patch(&format!("{all}/{name}"), changes);
    let data = json!({"data": {"volume": "x"}});
    let large = json!({"data": {"volume": "x".repeat(65537)}});
    let new = || copy("volume-warden-trash-3", json!({}));
    let refused = vec![
        (create(&own, copy("other", json!({}))), ONLY_COPIES),
        (
            create(&own, copy("volume-warden-trash-3", unlabeled.clone())),
            ONLY_COPIES,
        ),
        // With trash-list, the account may create ConfigMaps in any namespace.
        (create(&other, new()), ONLY_COPIES),
        (
            change(&other, "volume-warden-trash-1", data.clone()),
            ONLY_COPIES,
        ),
        (remove(&other, "volume-warden-trash-1"), ONLY_COPIES),
        (change(&own, seen, owned()), ONLY_COPIES),
        (change(&own, seen, finalized()), ONLY_COPIES),
        (change(&other, "settings", data.clone()), ONLY_COPIES),
        (change(&own, unlabeled_copy, data.clone()), ONLY_COPIES),
        (change(&own, mine, unlabeled), ONLY_COPIES),
        (remove(&other, "settings"), ONLY_COPIES),
        (remove(&own, seen), ONLY_COPIES),
        (change(&own, mine, owned()), ONLY_DATA),
        (change(&own, mine, large), SIZE),
        (change(&own, mine, json!({"data": {"a": "b"}})), SIZE),
        (
            change(&own, mine, json!({"binaryData": {"a": "YQ=="}})),
            SIZE,
        ),
    ];
    thief.all_are_refused(refused).await?;
    let permitted = vec![
        create(&own, new()),
        change(&own, mine, data.clone()),
        change(&own, seen, data),
        remove(&own, mine),
    ];
    thief.all_are_permitted(permitted).await?;
    let maps: Api<ConfigMap> = Api::namespaced(space.cluster.client(), INSTALLED);
    for name in COPIES {
        maps.delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}

const LIST_LABEL: &str = "volume-warden.dev/trash-list";
const LIST_SIZE: &str = "may only write lists of at most 128 KiB";
const BARE_LIST: &str = "may only create lists without annotations, finalizers and owners";

fn list(changes: Value) -> Value {
    let mut list = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "volume-warden-trash", "labels": {LIST_LABEL: "true"}},
        "data": {"trash": "{}"},
    });
    json_patch::merge(&mut list, &changes);
    list
}

/// In one namespace with a list, one with a user's ConfigMap of its name, and one with neither.
#[tokio::test]
async fn a_stolen_token_writes_only_lists_in_the_namespaces_of_users() -> Result<()> {
    let space = Space::new(bare().await?, "stolen-lists").await?;
    let users = Space::new(bare().await?, "stolen-users").await?;
    let free = Space::new(bare().await?, "stolen-free").await?;
    let unlabeled = json!({"metadata": {"labels": null}});
    for (space, map) in [(&space, list(json!({}))), (&users, list(unlabeled.clone()))] {
        let maps: Api<ConfigMap> = Api::namespaced(space.cluster.client(), &space.name);
        let map = serde_json::from_value(map)?;
        maps.create(&PostParams::default(), &map).await?;
    }
    let thief = Thief::new(&space).await?;
    thief.grant("create,delete,patch", "configmaps").await?;
    let all = |space: &Space| format!("/api/v1/namespaces/{}/configmaps", space.name);
    let named = |space: &Space| format!("{}/volume-warden-trash", all(space));
    let create = |map: Value| -> Write { (Method::POST, all(&free), map) };
    let change = |changes: Value| patch(&named(&space), changes);
    let labelled = json!({"metadata": {"labels": {LIST_LABEL: "true"}}});
    let large = json!({"data": {"trash": "x".repeat(131_073)}});
    let annotated = json!({"metadata": {"annotations": {"a": "b"}}});
    let finalized = json!({"metadata": {"finalizers": ["a.b/c"]}});
    let sealed = json!({"immutable": true});
    let refused = vec![
        (create(list(unlabeled.clone())), ONLY_COPIES),
        (
            create(list(json!({"metadata": {"name": "settings"}}))),
            ONLY_COPIES,
        ),
        (
            patch(&named(&users), json!({"data": {"trash": "x"}})),
            ONLY_COPIES,
        ),
        (patch(&named(&users), labelled), ONLY_DATA),
        ((Method::DELETE, named(&users), delete()), ONLY_COPIES),
        (change(unlabeled), ONLY_COPIES),
        (change(owned()), ONLY_DATA),
        (change(annotated.clone()), ONLY_DATA),
        (change(finalized.clone()), ONLY_DATA),
        (create(list(owned())), BARE_LIST),
        (create(list(annotated)), BARE_LIST),
        (create(list(finalized)), BARE_LIST),
        (create(list(large.clone())), LIST_SIZE),
        (create(list(sealed.clone())), LIST_SIZE),
        (create(list(json!({"data": {"other": "x"}}))), LIST_SIZE),
        (change(large), LIST_SIZE),
        (change(sealed), LIST_SIZE),
        (change(json!({"data": {"other": "x"}})), LIST_SIZE),
        (change(json!({"binaryData": {"a": "YQ=="}})), LIST_SIZE),
    ];
    thief.all_are_refused(refused).await?;
    let permitted = vec![
        create(list(json!({}))),
        change(json!({"data": {"trash": "{\"volumes\": []}"}})),
        (Method::DELETE, named(&space), delete()),
    ];
    thief.all_are_permitted(permitted).await
}
