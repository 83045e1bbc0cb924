//! Tests of the condition `Unused`.

use super::{
    InTreeWriter,
    in_tree::TAKEOVER_DELAY,
    reconcile::affected_by,
    rule::{Step, decide},
};
use crate::{
    cluster::Change,
    objects::{Claim, FIELD_MANAGER, ObjectName, Pod, claim::ClaimWire, pod::PodWire},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::advance;

const KCM: &str = "kube-controller-manager";

/// A claim with this phase and, from this manager, this condition.
fn claim(phase: &str, condition: Option<(&str, &str, &str)>, metadata: Value) -> Claim {
    let mut claim = json!({"metadata": {"name": "data", "namespace": "ns", "uid": "1"},
        "status": {"phase": phase}});
    json_patch::merge(&mut claim["metadata"], &metadata);
    if let Some((status, since, manager)) = condition {
        claim["status"]["conditions"] = json!([
            {"type": "Resizing", "status": "False"},
            {"type": "Unused", "status": status, "lastTransitionTime": since}
        ]);
        let key = r#"k:{"type":"Unused"}"#;
        let fields = json!({"f:status": {"f:conditions": {key: {"f:status": {}}}}});
        claim["metadata"]["managedFields"] = json!([{"manager": manager, "fieldsV1": fields}]);
    }
    let claim: ClaimWire = serde_json::from_value(claim).expect("a claim");
    claim.into()
}

fn bound(status: Option<&str>) -> Claim {
    let since = "2026-01-01T00:00:00Z";
    claim(
        "Bound",
        status.map(|status| (status, since, KCM)),
        json!({}),
    )
}

fn pod(fields: Value) -> Pod {
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "data"}});
    let mut pod = json!({"metadata": {"name": "web", "namespace": "ns", "uid": "p"},
        "spec": {"volumes": [volume], "containers": []}, "status": {"phase": "Pending"}});
    json_patch::merge(&mut pod, &fields);
    let pod: PodWire = serde_json::from_value(pod).expect("a pod");
    pod.into()
}

/// A pod that is being deleted, with a container in this state.
fn deleted(state: &str) -> Pod {
    pod(json!({
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30},
        "status": {"phase": "Running", "containerStatuses": [
            {"name": "c", "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": {state: {}}}
        ]},
    }))
}

/// The table of the controller's own tests in Kubernetes 1.37: each status of the condition, with
/// and without a pod that counts.
#[test]
fn the_status_follows_the_pods() {
    let user = pod(json!({}));
    for (status, with_user, without) in [
        (None, Step::Used, Step::Unused),
        (Some("True"), Step::Used, Step::Leave),
        (Some("False"), Step::Leave, Step::Unused),
        (Some("Unknown"), Step::Leave, Step::Unused),
    ] {
        let claim = bound(status);
        assert_eq!(decide("data", &claim, [&user]), with_user, "{status:?}");
        assert_eq!(decide("data", &claim, []), without, "{status:?}");
    }
}

#[test]
fn only_living_bound_claims_have_the_condition() {
    let deleting = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    for claim in [
        claim("Pending", None, json!({})),
        claim("Lost", None, json!({})),
        claim("Bound", None, deleting),
    ] {
        assert_eq!(decide("data", &claim, []), Step::Leave, "{claim:?}");
        assert_eq!(decide("data", &claim, [&pod(json!({}))]), Step::Leave);
    }
}

#[test]
fn pods_count_until_none_of_their_containers_runs() {
    let ephemeral = |uid: &str| {
        let volume = json!({"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}});
        pod(json!({"metadata": {"name": "x", "uid": uid}, "spec": {"volumes": [volume]}}))
    };
    let owned = json!({"ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "owner", "controller": true}
    ]});
    let (plain, owned) = (bound(None), claim("Bound", None, owned));
    for (name, claim, pod, step) in [
        ("data", &plain, pod(json!({})), Step::Used),
        (
            "data",
            &plain,
            pod(json!({"spec": {"nodeName": "n"}})),
            Step::Used,
        ),
        (
            "data",
            &plain,
            pod(json!({"status": {"phase": "Running"}})),
            Step::Used,
        ),
        (
            "data",
            &plain,
            pod(json!({"status": {"phase": "Succeeded"}})),
            Step::Unused,
        ),
        (
            "data",
            &plain,
            pod(json!({"status": {"phase": "Failed"}})),
            Step::Unused,
        ),
        ("data", &plain, deleted("running"), Step::Used),
        ("data", &plain, deleted("terminated"), Step::Unused),
        ("other", &plain, pod(json!({})), Step::Unused),
        ("x-data", &owned, ephemeral("owner"), Step::Used),
        ("x-data", &owned, ephemeral("stranger"), Step::Unused),
        ("x-data", &plain, ephemeral("owner"), Step::Unused),
    ] {
        assert_eq!(decide(name, claim, [&pod]), step, "{name} {pod:?}");
    }
}

/// The names of its claims are not kept, so it may use any claim: no reason to change a condition.
#[test]
fn a_pod_that_names_too_many_claims_proves_nothing() {
    let volumes = (0..=1000).map(
        |number| json!({"name": "v", "persistentVolumeClaim": {"claimName": format!("c{number}")}}),
    );
    let many = pod(json!({"spec": {"volumes": volumes.collect::<Vec<_>>()}}));
    let user = pod(json!({}));
    for (status, alone, with_user) in [
        (None, Step::Leave, Step::Used),
        (Some("True"), Step::Leave, Step::Used),
        (Some("False"), Step::Leave, Step::Leave),
    ] {
        let claim = bound(status);
        assert_eq!(decide("data", &claim, [&many]), alone, "{status:?}");
        assert_eq!(decide("data", &claim, [&many, &user]), with_user);
    }
}

#[test]
fn a_change_that_does_not_matter_enqueues_nothing() {
    let name = ObjectName::new("ns", "web");
    let (pending, running) = (pod(json!({})), pod(json!({"status": {"phase": "Running"}})));
    let finished = pod(json!({"status": {"phase": "Succeeded"}}));
    let replaced = pod(json!({"metadata": {"uid": "q"}}));
    let affected = |old: Option<&Pod>, new: Option<&Pod>| {
        let (old, new) = (old.cloned().map(Arc::new), new.cloned().map(Arc::new));
        let change = Change {
            name: &name,
            old: old.as_ref(),
            new: new.as_ref(),
            tombstone: false,
        };
        !affected_by(&change).is_empty()
    };
    assert!(affected(None, Some(&pending)));
    assert!(!affected(Some(&pending), Some(&running)));
    assert!(affected(Some(&running), Some(&finished)));
    assert!(affected(Some(&running), Some(&replaced)));
    assert!(affected(Some(&running), None));
}

fn by(manager: &str, since: &str) -> Claim {
    claim("Bound", Some(("True", since, manager)), json!({}))
}

#[test]
fn the_newest_condition_shows_who_writes() {
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
    let name = ObjectName::new("ns", "data");
    for (claims, in_tree) in [
        (vec![], false),
        (vec![bound(None)], false),
        (vec![by(FIELD_MANAGER, late), by(KCM, early)], false),
        (vec![by(FIELD_MANAGER, early), by(KCM, late)], true),
        (vec![by(KCM, early), by(FIELD_MANAGER, early)], true),
    ] {
        let writer = InTreeWriter::default();
        writer.assess(&claims);
        assert_eq!(writer.wait(&name).is_some(), in_tree, "{claims:?}");
    }
}

#[test]
fn an_observed_write_counts_more_than_old_conditions() {
    let name = ObjectName::new("ns", "data");
    let (before, late) = (bound(None), "2026-01-01T00:00:01Z");
    let writer = InTreeWriter::default();
    writer.observe(&name, &before, &by(KCM, "2020-01-01T00:00:00Z"));
    writer.assess(&[by(FIELD_MANAGER, late)]);
    assert!(writer.wait(&name).is_some());
    writer.observe(&name, &by(KCM, late), &by(KCM, late));
    assert!(writer.wait(&name).is_some(), "no condition has changed");
    writer.observe(&name, &before, &by(FIELD_MANAGER, late));
    assert!(writer.wait(&name).is_none());
    writer.observe(&name, &by(FIELD_MANAGER, late), &by("a user", late));
    assert!(writer.wait(&name).is_none(), "only the owner has changed");
}

#[tokio::test(start_paused = true)]
async fn a_transition_may_stay_unwritten_for_a_minute() {
    let (name, other) = (
        ObjectName::new("ns", "data"),
        ObjectName::new("ns", "other"),
    );
    let writer = InTreeWriter::default();
    writer.observe(&name, &bound(None), &by(KCM, "2026-01-01T00:00:00Z"));
    assert_eq!(writer.wait(&name), Some(TAKEOVER_DELAY));
    advance(Duration::from_secs(40)).await;
    assert_eq!(writer.wait(&other), Some(TAKEOVER_DELAY));
    assert_eq!(writer.wait(&name), Some(Duration::from_secs(20)));
    writer.stop_waiting(&name);
    assert_eq!(
        writer.wait(&name),
        Some(TAKEOVER_DELAY),
        "another transition"
    );
    advance(TAKEOVER_DELAY).await;
    assert_eq!(writer.wait(&name), Some(Duration::ZERO));
    writer.observe(&name, &bound(None), &by(KCM, "2026-01-01T00:00:01Z"));
    assert_eq!(writer.wait(&name), Some(TAKEOVER_DELAY), "it was written");
    advance(3 * TAKEOVER_DELAY).await;
    assert_eq!(
        writer.wait(&name),
        Some(TAKEOVER_DELAY),
        "its reconcile was dropped"
    );
    writer.take_over();
    assert_eq!(writer.wait(&name), None);
}
