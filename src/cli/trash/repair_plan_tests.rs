use super::*;
use crate::cli::trash::confirm::QUESTION;
use crate::objects::{
    Tracked as _,
    namespace::NamespaceWire,
    saved_volume::{KEY, SavedVolumeWire, config_map, name_of},
    test_volumes::whole,
    trash::TRASH,
};
use serde_json::{Value, json};
use std::sync::Arc;

fn volumes(all: &[WholeVolume]) -> Store<WholeVolume> {
    let mut store = Store::default();
    for each in all {
        let name = ObjectName::cluster_scoped(each.name());
        store.put(name, Some(Arc::new(each.clone())));
    }
    store
}

/// The copies of these volumes, by the uid that each had.
fn copies(all: &[(&str, WholeVolume)]) -> Store<VolumeCopy> {
    let mut store = Store::default();
    for (uid, whole) in all {
        let manifest = whole.manifest().map(|manifest| manifest.to_string());
        let name = name_of("volume-warden", uid);
        let map = config_map(&name, &manifest.unwrap_or_default());
        let wire: SavedVolumeWire = serde_json::from_value(map).expect("a ConfigMap");
        store.put(name, VolumeCopy::track(wire).map(Arc::new));
    }
    store
}

fn found(copied: &[(&str, WholeVolume)], present: &[WholeVolume]) -> Found {
    Found {
        before: copies(copied),
        volumes: volumes(present),
        after: copies(copied),
        namespaces: Store::default(),
    }
}

/// For each volume that was removed: why it is not created again, if it is not.
fn refused(copied: &[(&str, WholeVolume)], present: &[WholeVolume]) -> Vec<Option<String>> {
    let removed = plan(&found(copied, present), &[]).into_iter();
    removed.map(|each| each.refused).collect()
}

fn handle(handle: &str) -> Value {
    json!({"spec": {"csi": {"volumeHandle": handle}}})
}

fn named(name: &str, uid: &str) -> Value {
    json!({"metadata": {"name": name, "uid": uid}})
}

#[test]
fn a_volume_that_was_removed_is_created_again() {
    let saved = [("v", whole(json!({})))];
    assert_eq!(refused(&saved, &[]), [None]);
    assert_eq!(refused(&saved, &[whole(json!({}))]), [], "it exists");
    let mut other = named("other", "o");
    json_patch::merge(&mut other, &handle("other"));
    assert_eq!(refused(&saved, &[whole(other)]), [None]);
}

#[test]
fn a_volume_that_was_created_again_is_none_of_them() {
    let saved = [("v", whole(json!({})))];
    let again = whole(json!({"metadata": {"uid": "new"}}));
    assert_eq!(refused(&saved, &[again]), []);
}

/// A purge deletes the copy first, and a new volume has a copy before it is in the list.
#[test]
fn only_a_copy_that_stays_shows_that_its_volume_was_not_purged() {
    let one = || copies(&[("v", whole(json!({})))]);
    for (before, after) in [(one(), Store::default()), (Store::default(), one())] {
        let volumes = Store::default();
        let purged = Found {
            before,
            volumes,
            after,
            namespaces: Store::default(),
        };
        assert!(plan(&purged, &[]).is_empty());
    }
}

#[test]
fn a_volume_whose_data_another_one_has_is_refused() {
    let saved = [("v", whole(json!({})))];
    let refused = |present: Value| {
        let refused = refused(&saved, &[whole(present)]);
        assert_eq!(refused.len(), 1);
        refused.into_iter().flatten().next().unwrap_or_default()
    };
    let other = refused(named("static", "s"));
    assert!(
        other.contains("volume static has the same storage"),
        "{other}"
    );
    let mut replaced = named("pv", "new");
    json_patch::merge(&mut replaced, &handle("other"));
    let replaced = refused(replaced);
    assert!(replaced.contains("of this name exists"), "{replaced}");
}

#[test]
fn of_two_copies_with_the_same_data_none_is_chosen() {
    let saved = [("v", whole(json!({}))), ("w", whole(named("again", "w")))];
    let refused = refused(&saved, &[]);
    assert_eq!(refused.len(), 2);
    for why in refused {
        let why = why.unwrap_or_default();
        assert!(why.contains("volume-warden-trash-v"), "{why}");
        assert!(why.contains("volume-warden-trash-w"), "{why}");
    }
}

#[test]
fn of_two_copies_of_one_name_none_is_chosen() {
    let saved = [("v", whole(json!({}))), ("w", whole(handle("other")))];
    let refused = refused(&saved, &[]);
    assert_eq!(refused.len(), 2);
    for why in refused {
        let why = why.unwrap_or_default();
        assert!(why.contains("volumes of one name"), "{why}");
    }
}

/// A backup of another cluster may have brought the copy, and a window of 0 ends at once.
#[test]
fn a_volume_in_doubt_must_be_named() {
    let saved = |changes: Value| {
        let mut record = json!({"policy": "Delete", "windowSeconds": 3600,
            "claim": {"namespace": "ns", "name": "data", "uid": "1"}});
        json_patch::merge(&mut record, &changes);
        whole(json!({"metadata": {"annotations": {TRASH: record.to_string()}}}))
    };
    let recorded = || saved(json!({"claim": {"namespaceUid": "n"}}));
    let namespace = |uid: &str| {
        let namespace = json!({"metadata": {"name": "ns", "uid": uid}});
        let wire: NamespaceWire = serde_json::from_value(namespace).expect("a namespace");
        let mut store = Store::default();
        store.put(
            ObjectName::cluster_scoped("ns"),
            Namespace::track(wire).map(Arc::new),
        );
        store
    };
    let namespace_gone = "the namespace ns of its claim does not exist any more";
    for (copied, namespaces, doubt) in [
        (recorded(), namespace("n"), None),
        (recorded(), namespace("other"), Some(namespace_gone)),
        (recorded(), Store::default(), Some(namespace_gone)),
        (saved(json!({})), Store::default(), None),
        (
            saved(json!({"windowSeconds": 0})),
            Store::default(),
            Some("its undelete window is 0"),
        ),
    ] {
        let found = Found {
            namespaces,
            ..found(&[("v", copied)], &[])
        };
        let planned = |named: &[String]| plan(&found, named).remove(0);
        let why = planned(&[]).refused.unwrap_or_default();
        assert!(why.starts_with(doubt.unwrap_or_default()), "{why}");
        assert_eq!(why.is_empty(), doubt.is_none(), "{why}");
        assert_eq!(planned(&["pv".to_owned()]).refused, None);
        assert_eq!(
            planned(&["other".to_owned()]).refused.is_some(),
            doubt.is_some()
        );
    }
}

#[test]
fn a_copy_that_cannot_be_read_is_refused() {
    let unreadable = |text: &str| {
        let mut map = config_map(&name_of("volume-warden", "v"), "");
        map["data"][KEY] = json!(text);
        let wire: SavedVolumeWire = serde_json::from_value(map).expect("a ConfigMap");
        let store = || {
            let mut store = Store::default();
            let copy = VolumeCopy::track(wire.clone()).map(Arc::new);
            store.put(name_of("volume-warden", "v"), copy);
            store
        };
        let (before, after, volumes) = (store(), store(), Store::default());
        let found = Found {
            before,
            volumes,
            after,
            namespaces: Store::default(),
        };
        plan(&found, &[])
    };
    let without_record = json!({"metadata": {"name": "pv"}, "spec": {
        "csi": {"driver": "d", "volumeHandle": "h"}}});
    for text in ["", "no", &without_record.to_string()] {
        let removed = unreadable(text);
        let why = removed[0].refused.clone().unwrap_or_default();
        assert!(why.contains("cannot be read"), "{text}: {why}");
    }
}

#[test]
fn the_table_shows_which_storage_is_meant() {
    let saved = [("v", whole(json!({}))), ("w", whole(named("again", "w")))];
    let shown = table(&plan(&found(&saved[..1], &[]), &[]));
    let row = shown.lines().nth(1).unwrap_or_default();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(
        cells,
        ["pv", "ns/data", "1Gi", "d", "h", "create"],
        "{shown}"
    );
    assert!(table(&plan(&found(&saved, &[]), &[])).contains("none: "));
}

#[test]
fn the_page_of_the_command_shows_its_output() {
    let record = json!({"policy": "Delete", "windowSeconds": 3600,
        "claim": {"namespace": "shop", "name": "data", "uid": "1"}});
    let lost = whole(json!({
        "metadata": {"name": "pvc-7d2c", "annotations": {TRASH: record.to_string()}},
        "spec": {"capacity": {"storage": "10Gi"},
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0a1b2c3d4"}},
    }));
    let output = [
        table(&plan(&found(&[("v", lost)], &[]), &[]))
            .trim_end()
            .to_owned(),
        format!("{QUESTION}y"),
        recreated("pvc-7d2c"),
    ];
    let block = format!("```text\n{}\n```", output.join("\n"));
    let page = include_str!("../../../docs/commands/trash-repair.md");
    assert!(page.contains(&block), "{block}");
}
