//! Tests of the admission warnings on the deletion of a volume.

use super::deletions_hook;
use crate::{
    admission::{Answer, Request, Reviewed},
    objects::finalizers::PV_PROTECTION,
};
use serde_json::{Value, json};

fn request(old_object: &Value) -> Request {
    let review = json!({
        "uid": "review", "operation": "DELETE", "name": "volume",
        "resource": {"group": "", "version": "v1", "resource": "persistentvolumes"},
        "object": null, "oldObject": old_object, "dryRun": false,
    });
    serde_json::from_value(review).expect("a request")
}

fn reviewed(old_object: &Value) -> Reviewed {
    let request = request(old_object);
    let hook = deletions_hook();
    assert!(hook.rules.iter().any(|rule| rule.covers(&request)));
    hook.review.remembered(&request)
}

fn deleted(phase: &str, finalizers: &[&str]) -> Answer {
    reviewed(&json!({
        "metadata": {"name": "volume", "finalizers": finalizers},
        "spec": {"claimRef": {"namespace": "ns", "name": "data", "uid": "1"}},
        "status": {"phase": phase},
    }))
    .expect("an answer")
}

#[test]
fn the_warning_names_the_holder_of_the_volume() {
    for (phase, finalizers, holder) in [
        (
            "Bound",
            &[PV_PROTECTION, "other"][..],
            "The volume is kept because the claim ns/data is bound to it; it can be deleted once the claim is deleted.",
        ),
        (
            "Bound",
            &["other"],
            "The finalizer other keeps the object. ",
        ),
        (
            "Released",
            &[PV_PROTECTION, "other"],
            "The finalizer other keeps the object. ",
        ),
    ] {
        let answer = deleted(phase, finalizers);
        let Answer::Warn(sentences) = &answer else {
            panic!("{answer:?}");
        };
        let start = format!("persistentvolume \"volume\" stays Terminating for now. {holder}");
        assert!(
            sentences.len() == 1 && sentences[0].starts_with(&start),
            "{sentences:?}"
        );
    }
}

#[test]
fn a_volume_without_holders_gets_no_warning() {
    for (phase, finalizers) in [
        ("Released", &[PV_PROTECTION][..]),
        ("Available", &[PV_PROTECTION]),
        ("Bound", &[]),
    ] {
        assert_eq!(deleted(phase, finalizers), Answer::Allow, "{phase}");
    }
}

#[test]
fn an_unreadable_request_is_not_refused() {
    for object in [json!(null), json!("text"), json!({"metadata": 3})] {
        let answer = reviewed(&object);
        assert!(answer.is_err(), "{answer:?}");
    }
}
