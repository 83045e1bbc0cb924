//! Which writes of ConfigMaps a stolen token of Volume Warden's service account permits.

use super::stolen_token::{StolenToken, Write, dry_run_delete, patch};
use crate::{
    pvc_trash::copies::NAMESPACE,
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

/// The ConfigMaps that the scenario creates in the namespace of Volume Warden.
const COPIES: [&str; 3] = [
    "volume-warden-trash-stolen",
    "volume-warden-trash-unlabeled",
    "volume-warden-seen-namespaces",
];

#[tokio::test]
async fn a_stolen_token_writes_no_config_map_but_copies_of_volumes() -> Result<()> {
    // Scenarios of namespace-gc must not find the list of seen namespaces.
    let (cluster, _exclusive) = quiet().await?;
    let space = Space::new(cluster, "stolen-copies").await?;
    let [saved_copy, unlabeled_copy, seen] = COPIES;
    let unlabeled = json!({"metadata": {"labels": null}});
    for (namespace, map) in [
        (NAMESPACE, copy(saved_copy, json!({}))),
        (NAMESPACE, copy(unlabeled_copy, unlabeled.clone())),
        (NAMESPACE, copy(seen, unlabeled.clone())),
        (&space.name, copy("settings", json!({}))),
        (&space.name, copy("volume-warden-trash-1", json!({}))),
    ] {
        let maps: Api<ConfigMap> = Api::namespaced(space.cluster.client(), namespace);
        let map = serde_json::from_value(map)?;
        maps.create(&PostParams::default(), &map).await?;
    }
    let token = StolenToken::new(&space).await?;
    token.grant("create,delete,patch", "configmaps").await?;
    let path_of = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    let (own_maps, user_maps) = (path_of(NAMESPACE), path_of(&space.name));
    let create = |maps: &str, map: Value| -> Write { (Method::POST, maps.to_owned(), map) };
    let remove = |maps: &str, name: &str| -> Write {
        (Method::DELETE, format!("{maps}/{name}"), dry_run_delete())
    };
    let change = |maps: &str, name: &str, changes| patch(&format!("{maps}/{name}"), changes);
    let data = json!({"data": {"volume": "x"}});
    let large = json!({"data": {"volume": "x".repeat(65537)}});
    let new = || copy("volume-warden-trash-3", json!({}));
    let refused = vec![
        (create(&own_maps, copy("other", json!({}))), ONLY_COPIES),
        (
            create(&own_maps, copy("volume-warden-trash-3", unlabeled.clone())),
            ONLY_COPIES,
        ),
        // With trash-list, the account may create ConfigMaps in any namespace.
        (create(&user_maps, new()), ONLY_COPIES),
        (
            change(&user_maps, "volume-warden-trash-1", data.clone()),
            ONLY_COPIES,
        ),
        (remove(&user_maps, "volume-warden-trash-1"), ONLY_COPIES),
        (change(&own_maps, seen, owned()), ONLY_COPIES),
        (change(&own_maps, seen, finalized()), ONLY_COPIES),
        (change(&user_maps, "settings", data.clone()), ONLY_COPIES),
        (change(&own_maps, unlabeled_copy, data.clone()), ONLY_COPIES),
        (change(&own_maps, saved_copy, unlabeled), ONLY_COPIES),
        (remove(&user_maps, "settings"), ONLY_COPIES),
        (remove(&own_maps, seen), ONLY_COPIES),
        (change(&own_maps, saved_copy, owned()), ONLY_DATA),
        (change(&own_maps, saved_copy, large), SIZE),
        (
            change(&own_maps, saved_copy, json!({"data": {"a": "b"}})),
            SIZE,
        ),
        (
            change(&own_maps, saved_copy, json!({"binaryData": {"a": "YQ=="}})),
            SIZE,
        ),
    ];
    token.all_are_refused(refused).await?;
    let permitted = vec![
        create(&own_maps, new()),
        change(&own_maps, saved_copy, data.clone()),
        change(&own_maps, seen, data),
        remove(&own_maps, saved_copy),
    ];
    token.all_are_permitted(permitted).await?;
    let maps: Api<ConfigMap> = Api::namespaced(space.cluster.client(), NAMESPACE);
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

/// Uses three namespaces: one with a list, one with a user's ConfigMap of the same name, and one
/// with neither.
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
    let token = StolenToken::new(&space).await?;
    token.grant("create,delete,patch", "configmaps").await?;
    let path_of = |space: &Space| format!("/api/v1/namespaces/{}/configmaps", space.name);
    let named = |space: &Space| format!("{}/volume-warden-trash", path_of(space));
    let create = |map: Value| -> Write { (Method::POST, path_of(&free), map) };
    let change = |changes: Value| patch(&named(&space), changes);
    let labelled = json!({"metadata": {"labels": {LIST_LABEL: "true"}}});
    let large = json!({"data": {"trash": "x".repeat(131_073)}});
    let annotated = json!({"metadata": {"annotations": {"a": "b"}}});
    let finalized = json!({"metadata": {"finalizers": ["a.b/c"]}});
    let immutable_list = json!({"immutable": true});
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
        (
            (Method::DELETE, named(&users), dry_run_delete()),
            ONLY_COPIES,
        ),
        (change(unlabeled), ONLY_COPIES),
        (change(owned()), ONLY_DATA),
        (change(annotated.clone()), ONLY_DATA),
        (change(finalized.clone()), ONLY_DATA),
        (create(list(owned())), BARE_LIST),
        (create(list(annotated)), BARE_LIST),
        (create(list(finalized)), BARE_LIST),
        (create(list(large.clone())), LIST_SIZE),
        (create(list(immutable_list.clone())), LIST_SIZE),
        (create(list(json!({"data": {"other": "x"}}))), LIST_SIZE),
        (change(large), LIST_SIZE),
        (change(immutable_list), LIST_SIZE),
        (change(json!({"data": {"other": "x"}})), LIST_SIZE),
        (change(json!({"binaryData": {"a": "YQ=="}})), LIST_SIZE),
    ];
    token.all_are_refused(refused).await?;
    let permitted = vec![
        create(list(json!({}))),
        change(json!({"data": {"trash": "{\"volumes\": []}"}})),
        (Method::DELETE, named(&space), dry_run_delete()),
    ];
    token.all_are_permitted(permitted).await
}
