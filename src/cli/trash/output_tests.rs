//! Tests of the list of the trash.

use super::*;
use crate::objects::{
    ObjectName, Volume,
    trash::{PURGE, TRASH},
    volume::VolumeWire,
};

/// A Released volume of the claim `shop/data` with the uid 1, deleted at noon, with changes to its
/// record and to the volume; `null` removes a field.
fn volume(record: Value, changes: Value) -> Volume {
    let mut written = json!({
        "policy": "Delete", "windowSeconds": 259_200, "deletedAt": "2026-01-01T12:00:00Z",
        "claim": {"namespace": "shop", "name": "data", "uid": "1", "namespaceUid": "n"},
    });
    json_patch::merge(&mut written, &record);
    let mut volume = json!({
        "metadata": {"name": "pv", "annotations": {TRASH: written.to_string()}},
        "spec": {"claimRef": {"namespace": "shop", "name": "data", "uid": "1"}, "storageClassName": "fast",
            "capacity": {"storage": "10Gi"}, "persistentVolumeReclaimPolicy": "Retain"},
        "status": {"phase": "Released"},
    });
    json_patch::merge(&mut volume, &changes);
    let wire: VolumeWire = serde_json::from_value(volume).expect("a volume");
    wire.into()
}

fn printed(volumes: &[(&str, Volume)], output: Output) -> String {
    let names = volumes
        .iter()
        .map(|(name, _)| ObjectName::cluster_scoped(*name));
    let names: Vec<_> = names.collect();
    let volumes = names.iter().zip(volumes);
    let entries = volumes.filter_map(|(name, (_, volume))| Entry::of(name, volume));
    let entries: Vec<_> = entries.collect();
    let now = "2026-01-01T15:30:00Z".parse().expect("a time");
    shown(entries.iter().map(Row::from).collect(), output, now)
}

fn next(record: Value, changes: Value) -> Option<Next> {
    let (name, volume) = (ObjectName::cluster_scoped("pv"), volume(record, changes));
    Entry::of(&name, &volume).map(|entry| entry.next)
}

#[test]
fn a_volume_in_the_trash_says_what_happens_next() {
    let end = "2026-01-04T12:00:00Z".parse().ok();
    let purge = |uid: &str| json!({"metadata": {"annotations": {PURGE: uid}}});
    let policy = |policy: &str| json!({"spec": {"persistentVolumeReclaimPolicy": policy}});
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T13:00:00Z"}});
    let none = || json!({});
    for (record, changes, expected) in [
        (none(), none(), Next::Until(end)),
        (json!({"deletedAt": null}), none(), Next::Until(None)),
        (none(), purge("1"), Next::Requested),
        (none(), purge("2"), Next::Until(end)),
        (json!({"policy": "Retain"}), none(), Next::Kept),
        (json!({"policy": "Retain"}), purge("1"), Next::Kept),
        (none(), policy("Delete"), Next::Purging),
        (none(), deleting, Next::Purging),
    ] {
        let shown = format!("{record} {changes}");
        assert_eq!(next(record, changes), Some(expected), "{shown}");
    }
}

#[test]
fn only_a_released_volume_with_a_valid_record_is_in_the_trash() {
    let none = || json!({});
    for (record, changes) in [
        (none(), json!({"status": {"phase": "Bound"}})),
        (json!({"claim": {"uid": "2"}}), none()),
        (none(), json!({"spec": {"claimRef": {"uid": null}}})),
        (none(), json!({"metadata": {"annotations": null}})),
        (none(), json!({"metadata": {"annotations": {TRASH: "{}"}}})),
    ] {
        let shown = format!("{record} {changes}");
        assert_eq!(next(record, changes), None, "{shown}");
    }
}

#[test]
fn the_table_is_sorted_and_aligned() {
    let earlier = json!({"deletedAt": "2026-01-01T11:00:00Z"});
    let archived = json!({"policy": "Retain", "claim": {"name": "archive"}});
    let volumes = [
        ("pv-3", volume(json!({}), json!({}))),
        ("pv-2", volume(earlier, json!({}))),
        ("pv-1", volume(archived, json!({}))),
        (
            "pv-0",
            volume(json!({}), json!({"status": {"phase": "Bound"}})),
        ),
    ];
    assert_eq!(
        printed(&volumes, Output::Table),
        "NAMESPACE  CLAIM    SIZE  DELETED  PURGED AT             VOLUME\n\
         shop       archive  10Gi  3h       never                 pv-1\n\
         shop       data     10Gi  4h       2026-01-04T11:00:00Z  pv-2\n\
         shop       data     10Gi  3h       2026-01-04T12:00:00Z  pv-3"
    );
    let wide = printed(&volumes[..1], Output::Wide);
    let (header, row) = wide.split_once('\n').expect("two lines");
    assert!(
        header.ends_with("VOLUME  STORAGECLASS  WINDOW  NAMESPACE UID"),
        "{wide}"
    );
    assert!(row.ends_with("pv-3    fast          3d      n"), "{wide}");
}

/// A deletion whose time is not recorded yet counts as the latest one, as for `undelete`.
#[test]
fn a_deletion_without_a_time_is_the_last_one() {
    let unknown = || volume(json!({"deletedAt": null}), json!({}));
    let volumes = [("pv-1", unknown()), ("pv-2", volume(json!({}), json!({})))];
    let table = printed(&volumes, Output::Table);
    let place = |volume| table.find(volume).expect("a row");
    assert!(place("pv-2") < place("pv-1"), "{table}");
    let names = ["pv-1", "pv-2"].map(ObjectName::cluster_scoped);
    let entries = names.iter().zip(&volumes);
    let entries = entries.filter_map(|(name, (_, volume))| Entry::of(name, volume));
    let mut entries: Vec<_> = entries.collect();
    sort(&mut entries);
    let sorted: Vec<_> = entries.iter().map(|entry| &*entry.name.name).collect();
    assert_eq!(sorted, ["pv-2", "pv-1"]);
}

#[test]
fn json_has_every_field() {
    let text = printed(&[("pv", volume(json!({}), json!({})))], Output::Json);
    let read: Value = serde_json::from_str(&text).expect("JSON");
    let expected = json!({"volumes": [{
        "namespace": "shop", "namespaceUid": "n", "claim": "data", "claimUid": "1", "volume": "pv",
        "storageClass": "fast", "capacity": "10Gi", "reclaimPolicy": "Delete", "windowSeconds": 259_200,
        "deletedAt": "2026-01-01T12:00:00Z", "purgedAt": "2026-01-04T12:00:00Z", "state": "InTrash",
    }]});
    assert_eq!(read, expected);
}

/// A user who may not list volumes reads the list of the namespace.
#[test]
fn a_list_of_the_namespace_is_shown_as_its_volumes_are() {
    let unknown = || json!({"claim": {"namespaceUid": null}});
    let of = |changes: Value| {
        let mut record = unknown();
        json_patch::merge(&mut record, &changes);
        volume(record, json!({}))
    };
    let volumes = [
        ("pv-3", of(json!({}))),
        ("pv-2", of(json!({"deletedAt": "2026-01-01T11:00:00Z"}))),
        (
            "pv-1",
            of(json!({"policy": "Retain", "claim": {"name": "archive"}})),
        ),
    ];
    let listed = volumes.iter().map(|(name, volume)| {
        let name = ObjectName::cluster_scoped(*name);
        let entry = Entry::of(&name, volume).expect("in the trash");
        ListedVolume::of(&entry)
    });
    let listed: Vec<_> = listed.collect();
    let now = "2026-01-01T15:30:00Z".parse().expect("a time");
    let shown = |output| {
        let rows = listed.iter().map(|each| Row::listed("shop", each));
        shown(rows.collect(), output, now)
    };
    for output in [Output::Table, Output::Wide] {
        assert_eq!(shown(output), printed(&volumes, output));
    }
    let text = printed(&volumes, Output::Json);
    let mut expected: Value = serde_json::from_str(&text).expect("JSON");
    for volume in expected["volumes"].as_array_mut().expect("volumes") {
        volume["claimUid"] = Value::Null;
        volume["reclaimPolicy"] = Value::Null;
    }
    let read: Value = serde_json::from_str(&shown(Output::Json)).expect("JSON");
    assert_eq!(read, expected);
}

/// An administrator may have written the record, which is an annotation.
#[test]
fn text_of_the_record_cannot_control_the_terminal() {
    let claim = || json!({"claim": {"name": "a\u{1b}[2Jb\nc\u{202e}"}});
    let text = printed(&[("pv", volume(claim(), json!({})))], Output::Wide);
    assert!(text.contains("a\\u{1b}[2Jb\\nc\\u{202e}"), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
    let text = printed(&[("pv", volume(claim(), json!({})))], Output::Json);
    assert!(text.contains("a\\u001b[2Jb\\nc\\u202e"), "{text}");
}

#[test]
fn an_age_has_one_unit() {
    for (seconds, expected) in [
        (0, "0s"),
        (119, "119s"),
        (3600, "60m"),
        (7200, "2h"),
        (172_800, "2d"),
    ] {
        assert_eq!(span(seconds), expected);
    }
    let noon: Timestamp = "2026-01-01T12:00:00Z".parse().expect("a time");
    let before: Timestamp = "2026-01-01T11:59:00Z".parse().expect("a time");
    assert_eq!(age(noon, before), "0s", "the clocks may differ");
}

#[test]
fn the_page_of_the_command_shows_the_table() {
    let archived = json!({"policy": "Retain", "claim": {"name": "archive"}});
    let earlier = json!({"deletedAt": "2026-01-01T11:00:00Z"});
    let volumes = [
        ("pvc-7d2c", volume(earlier, json!({}))),
        ("pvc-0b1f", volume(archived, json!({}))),
    ];
    let block = format!("```text\n{}\n```", printed(&volumes, Output::Table));
    let page = include_str!("../../../docs/commands/trash.md");
    assert!(page.contains(&block), "{block}");
}
