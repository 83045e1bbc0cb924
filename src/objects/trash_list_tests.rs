//! Tests of the lists of deleted claims.

use super::*;
use crate::objects::{Volume, trash::TRASH, volume::VolumeWire};
use serde_json::json;

fn listed(claim: &str, deleted_at: &str) -> ListedVolume {
    ListedVolume {
        claim: claim.to_owned(),
        capacity: "1Gi".to_owned(),
        storage_class: "fast".to_owned(),
        deleted_at: deleted_at.parse().ok(),
        purged_at: None,
        state: State::Kept,
        volume: "pv".to_owned(),
        window_seconds: 3600,
    }
}

#[test]
fn the_last_deletion_is_first_and_an_unrecorded_one_counts_as_the_last() {
    let list = List::of(vec![
        listed("b", "2026-01-01T00:00:00Z"),
        listed("later", "2026-01-02T00:00:00Z"),
        listed("unknown", ""),
        listed("a", "2026-01-01T00:00:00Z"),
    ]);
    let claims: Vec<_> = list.volumes.iter().map(|each| &*each.claim).collect();
    assert_eq!(claims, ["unknown", "later", "a", "b"]);
    assert_eq!(list.left_out, 0);
}

#[test]
fn the_oldest_deletions_beyond_the_bound_are_counted() {
    let names = 0..MAX_CLAIMS + 7;
    let day = |index: usize| format!("2026-01-{:02}T00:00:00Z", 1 + index % 28);
    let list = List::of(names.map(|index| listed("c", &day(index))).collect());
    assert_eq!((list.volumes.len(), list.left_out), (MAX_CLAIMS, 7));
    let first = list.volumes.first().and_then(|each| each.deleted_at);
    assert_eq!(first, "2026-01-28T00:00:00Z".parse().ok());
    let oldest = list.volumes.iter().filter_map(|each| each.deleted_at).min();
    assert_eq!(
        oldest,
        "2026-01-02T00:00:00Z".parse().ok(),
        "the first day is left out"
    );
}

/// The names are as long as possible, and hold what JSON writes as six characters.
#[test]
fn no_list_is_too_long() {
    let long = format!("\u{1}\"\\{}", "x".repeat(9000));
    let record = json!({"policy": "Delete", "windowSeconds": u64::MAX,
        "deletedAt": "2026-01-01T12:00:00.123456789Z",
        "claim": {"namespace": "shop", "name": long, "uid": "1"}});
    let volume = json!({
        "metadata": {"name": "pv", "annotations": {TRASH: record.to_string()}},
        "spec": {"claimRef": {"namespace": "shop", "name": "x", "uid": "1"}, "storageClassName": long,
            "capacity": {"storage": long}, "persistentVolumeReclaimPolicy": "Retain"},
        "status": {"phase": "Released"},
    });
    let wire: VolumeWire = serde_json::from_value(volume).expect("a volume");
    let (name, volume) = (
        ObjectName::cluster_scoped(long.as_str()),
        Volume::from(wire),
    );
    let entry = Entry::of(&name, &volume).expect("in the trash");
    let text = List::of(vec![ListedVolume::of(&entry); MAX_CLAIMS]).text();
    assert!(text.len() <= MAX_LIST, "{}", text.len());
    assert!(text.len() > MAX_LIST / 2, "the bound is needed");
}

#[test]
fn a_list_is_read_as_it_was_written() {
    let mut requested = listed("a", "2026-01-01T00:00:00Z");
    requested.state = State::PurgeRequested;
    let mut waiting = listed("b", "2026-01-01T00:00:00Z");
    (waiting.state, waiting.purged_at) = (State::InTrash, "2026-01-02T00:00:00Z".parse().ok());
    let list = List::of(vec![requested, waiting, listed("c", "")]);
    let text = list.text();
    assert_eq!(serde_json::from_str::<List>(&text).ok(), Some(list.clone()));
    assert!(
        text.contains("\n      \"claim\": \"a\","),
        "one field a line: {text}"
    );
    let next: Vec<_> = list.volumes.iter().map(ListedVolume::next).collect();
    let end = "2026-01-02T00:00:00Z".parse().ok();
    assert_eq!(next, [Next::Kept, Next::Requested, Next::Until(end)]);
}

fn tracked(changes: Value) -> TrashList {
    let mut map = config_map(&name_in("shop"), "{}");
    map["metadata"]["uid"] = json!("1");
    map["metadata"]["resourceVersion"] = json!("2");
    json_patch::merge(&mut map, &changes);
    let wire = serde_json::from_value(map).expect("a ConfigMap");
    TrashList::track(wire).expect("every ConfigMap of the name is kept")
}

#[test]
fn a_list_is_recognized_by_its_label() {
    let list = tracked(json!({}));
    assert!(list.owned && !list.deleting && !list.sealed);
    assert_eq!((list.text.as_deref(), &list.uid), (Some("{}"), &"1".into()));
    for labels in [json!(null), json!({TRASH_LIST: "false"})] {
        let list = tracked(json!({"metadata": {"labels": labels}}));
        assert!(!list.owned && list.text.is_none());
    }
}

#[test]
fn a_list_that_a_user_changed_differs() {
    for changes in [
        json!({"data": null}),
        json!({"data": {"more": "x"}}),
        json!({"data": {KEY: "x".repeat(MAX_LIST + 1)}}),
    ] {
        let list = tracked(changes);
        assert!(list.owned && list.text.is_none() && !list.sealed);
    }
    for changes in [
        json!({"immutable": true}),
        json!({"immutable": false}),
        json!({"binaryData": {"a": "YQ=="}}),
    ] {
        assert!(tracked(changes.clone()).sealed, "{changes}");
    }
}
