//! Tests of which volume `purge` chooses, and of its write.

use super::*;
use crate::{
    cli::{trash::confirm::QUESTION, user::exit_code::EXIT_UNKNOWN},
    cluster::test_server::{answering, failure, uncertain},
    objects::trash::TRASH,
};
use serde_json::Value;

/// A Released volume of the claim `shop/data` with this uid, with changes to its record and to the
/// volume.
fn wire(uid: &str, record: Value, changes: Value) -> Value {
    let mut written = json!({
        "policy": "Delete", "windowSeconds": 3600, "deletedAt": "2026-01-01T12:00:00Z",
        "claim": {"namespace": "shop", "name": "data", "uid": uid},
    });
    json_patch::merge(&mut written, &record);
    let mut volume = json!({
        "metadata": {"name": "pv", "uid": "v", "annotations": {TRASH: written.to_string()}},
        "spec": {"claimRef": {"namespace": "shop", "name": "data", "uid": uid},
            "capacity": {"storage": "10Gi"}, "persistentVolumeReclaimPolicy": "Retain"},
        "status": {"phase": "Released"},
    });
    json_patch::merge(&mut volume, &changes);
    volume
}

fn read(wire: &Value) -> Volume {
    let wire: VolumeWire = serde_json::from_value(wire.clone()).expect("a volume");
    wire.into()
}

fn now() -> Timestamp {
    "2026-01-01T12:05:00Z".parse().expect("a time")
}

/// Returns the volume that `purge` chooses among these, or why it chooses none.
fn choice(volumes: &[(&str, Value)]) -> Result<String, Option<String>> {
    let mut store = Store::default();
    for (name, wire) in volumes {
        store.put(
            ObjectName::cluster_scoped(*name),
            Some(Arc::new(read(wire))),
        );
    }
    let mut found = in_trash(&store, |entry| is_of(entry, "shop", "data"));
    sort(&mut found);
    let now = now();
    chosen(&found, now, "volume-warden purge pv NAME").map(|entry| description(entry, now))
}

#[test]
fn the_only_volume_in_the_trash_is_chosen() {
    let plain = || wire("1", json!({}), json!({}));
    let purging = wire(
        "2",
        json!({}),
        json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
    );
    let other = wire("3", json!({"claim": {"name": "other"}}), json!({}));
    let foreign = wire("4", json!({"claim": {"namespace": "other"}}), json!({}));
    let bound = wire("5", json!({}), json!({"status": {"phase": "Bound"}}));
    let expected = "This permanently deletes volume pv-1 of the deleted claim shop/data (10Gi, \
                    deleted 5m ago), with its data.";
    let volumes = [
        ("pv-1", plain()),
        ("pv-2", purging),
        ("pv-3", other),
        ("pv-4", foreign),
        ("pv-5", bound),
    ];
    assert_eq!(choice(&volumes).as_deref(), Ok(expected));
    assert_eq!(choice(&volumes[2..]), Err(None));
    let refused = choice(&volumes[1..2]).expect_err("none").expect("a reason");
    assert!(refused.contains("is being deleted already"), "{refused}");
}

#[test]
fn two_volumes_of_one_claim_name_are_listed() {
    let later = json!({"deletedAt": "2026-01-01T12:04:00Z"});
    let volumes = [
        ("pv-1", wire("1", later, json!({}))),
        ("pv-2", wire("2", json!({}), json!({}))),
    ];
    let refused = choice(&volumes).expect_err("ambiguous").expect("a reason");
    for words in [
        "volume pv-2 (10Gi, deleted 5m ago), volume pv-1 (10Gi, deleted 60s ago)",
        "purge pv NAME",
    ] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
}

/// `purge` refuses such a volume, because the reconciler would ignore its annotation.
#[test]
fn a_volume_whose_policy_was_retain_is_refused() {
    let kept = wire("1", json!({"policy": "Retain"}), json!({}));
    let refused = choice(&[("pv-1", kept)])
        .expect_err("kept")
        .expect("a reason");
    let expected = "the reclaim policy of volume pv-1 was Retain before the trash was enabled for \
                    its claim shop/data, so Volume Warden never deletes its data";
    assert_eq!(refused, expected);
}

#[tokio::test]
async fn no_earlier_volume_is_chosen_while_that_of_the_last_claim_is_not_released() {
    for (phase, expected) in [("Bound", Some(ExitCode::FAILURE)), ("Released", None)] {
        let last = wire("2", json!({}), json!({"status": {"phase": phase}}));
        let mut first = wire("1", json!({}), json!({"metadata": {"name": "first"}}));
        first["spec"]["claimRef"]["resourceVersion"] = json!("1");
        let list = json!({"metadata": {}, "items": [first, last]});
        let client = answering(move |head, _| match head.uri.path() {
            "/api/v1/persistentvolumes" => (200, list.clone()),
            _ => failure(404, "NotFound"),
        });
        let read = volumes_of(&client, &ObjectName::new("shop", "data"), "", "").await;
        assert_eq!(read.err(), expected, "{phase}");
    }
}

#[test]
fn the_write_fails_on_another_volume_or_claim() {
    let wire = wire("1", json!({}), json!({}));
    let (name, volume) = (ObjectName::cluster_scoped("pv"), read(&wire));
    let entry = Entry::of(&name, &volume).expect("in the trash");
    let mut patched = wire.clone();
    json_patch::patch(&mut patched, &operations(&entry)).expect("the patch applies");
    let requested = read(&patched);
    let requested = Entry::of(&name, &requested).expect("in the trash");
    assert_eq!(requested.next, Next::Requested);
    for changes in [
        json!({"metadata": {"uid": "another"}}),
        json!({"spec": {"claimRef": {"uid": "2"}}}),
        json!({"spec": {"claimRef": {"uid": null}}}),
    ] {
        let mut changed = wire.clone();
        json_patch::merge(&mut changed, &changes);
        let refused = json_patch::patch(&mut changed, &operations(&entry));
        assert!(refused.is_err(), "{changes}");
    }
}

/// With a status of 500 or more, the API server may have stored the request.
#[tokio::test]
async fn only_a_request_that_was_certainly_refused_is_reported_as_refused() {
    let wire = wire("1", json!({}), json!({}));
    let (name, volume) = (ObjectName::cluster_scoped("pv"), read(&wire));
    let entry = Entry::of(&name, &volume).expect("in the trash");
    let requested = async |answer: (u16, Value)| {
        let client = answering(move |_, _| answer.clone());
        let requested = request(&client, &entry).await;
        requested.expect("printed")
    };
    assert_eq!(requested((200, wire.clone())).await, ExitCode::SUCCESS);
    for (code, reason) in [(403, "Forbidden"), (422, "Invalid")] {
        let refused = requested(failure(code, reason)).await;
        assert_eq!(refused, ExitCode::FAILURE, "{code}");
    }
    for answer in uncertain() {
        let code = answer.0;
        let unknown = requested(answer).await;
        assert_eq!(unknown, ExitCode::from(EXIT_UNKNOWN), "{code}");
    }
}

#[test]
fn the_page_of_the_command_shows_its_output() {
    let volume = read(&wire("1", json!({}), json!({})));
    let name = ObjectName::cluster_scoped("pvc-7d2c");
    let entry = Entry::of(&name, &volume).expect("in the trash");
    let now = "2026-01-01T16:00:00Z".parse().expect("a time");
    let output = [
        description(&entry, now),
        format!("{QUESTION}y"),
        requested("pvc-7d2c"),
    ];
    let block = format!("```text\n{}\n```", output.join("\n"));
    let page = include_str!("../../../docs/commands/purge.md");
    assert!(page.contains(&block), "{block}");
}
