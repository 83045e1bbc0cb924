//! Tests of the plan for lists of deleted claims.

use super::{
    plan,
    tests::{objects, only},
};
use crate::{
    component::ComponentRef,
    components::{pvc_trash::PvcTrash, trash_list::TrashListing},
    objects::{
        Tracked as _, TrashList,
        trash_list::{TRASH_LIST, config_map, name_in},
    },
};
use serde_json::json;
use std::sync::Arc;

/// Nothing keeps a list up to date after the drain. A ConfigMap of a user is left.
#[test]
fn lists_of_deleted_claims_are_deleted() {
    let mut objects = objects(&json!({}), &json!({}), &[]);
    for (namespace, labels) in [("shop", json!({})), ("users", json!({TRASH_LIST: null}))] {
        let name = name_in(namespace);
        let mut map = config_map(&name, "{}");
        let changes = json!({"metadata": {"uid": "u", "labels": labels}});
        json_patch::merge(&mut map, &changes);
        let list = TrashList::track(serde_json::from_value(map).expect("a ConfigMap"));
        objects.lists.put(name, list.map(Arc::new));
    }
    let planned = |component: ComponentRef| {
        let cleanups = plan(&objects, &only(component)).cleanups.into_iter();
        cleanups.map(|cleanup| cleanup.id()).collect::<Vec<_>>()
    };
    let id = "ConfigMap shop/volume-warden-trash u";
    assert_eq!(planned(&TrashListing), [id]);
    assert_eq!(planned(&PvcTrash), [] as [&str; 0]);
}
