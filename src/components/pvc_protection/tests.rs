//! Tests of the rule of pvc-protection: the rows of the table tests in Kubernetes, numbered in
//! their order there, and the cases missing there.

use super::{
    last_seen::LastSeen,
    rule::{Cached, Step, View, decide, decide_live},
    triggers::{claims_of_namespace, claims_to_reconcile},
};
use crate::{
    causes::FinishedPods,
    cluster::Change,
    objects::{
        Claim, ObjectName, Pod, Tracked,
        claim::ClaimPhase,
        finalizers::{self, PVC_PROTECTION},
        pod::PodWire,
        rare_fields::{Rare, RareFields},
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};
use std::sync::Arc;

const ADD: Step = Step::Protect;
const REMOVE: Step = Step::Unprotect;
const KEEP: Step = Step::InUse;
const NOTHING: Step = Step::UpToDate;

fn claim(deleting: bool, finalizers: &[&str]) -> Claim {
    Claim {
        uid: "claim-uid".into(),
        resource_version: "1".into(),
        deleting,
        finalizers: finalizers::shared(
            finalizers
                .iter()
                .map(|&finalizer| finalizer.to_owned())
                .collect(),
        ),
        annotated: false,
        volume_name: "".into(),
        bind_completed: false,
        phase: ClaimPhase::Pending,
        unused: None,
        rare: Rare::default(),
    }
}

fn live() -> Claim {
    claim(false, &[])
}

fn protected() -> Claim {
    claim(false, &["other", PVC_PROTECTION])
}

fn deleted() -> Claim {
    claim(true, &["other", PVC_PROTECTION])
}

fn owned_by(uid: &str, claim: Claim) -> Claim {
    let owner = OwnerReference {
        uid: uid.into(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    let rare = RareFields {
        owners: [owner].into(),
        ..RareFields::default()
    };
    Claim {
        rare: rare.into(),
        ..claim
    }
}

/// A pod on a node with one volume, as the API server sends it; `changes` is merged into it.
fn pod(volume: Value, changes: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": "pod", "namespace": "ns", "uid": "pod-uid"},
        "spec": {"nodeName": "node", "volumes": [{"name": "scratch", "emptyDir": {}}, volume]},
        "status": {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]},
    });
    json_patch::merge(&mut pod, &changes);
    serde_json::from_value::<PodWire>(pod)
        .expect("a pod")
        .into()
}

fn explicit(changes: Value) -> Pod {
    pod(
        json!({"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}),
        changes,
    )
}

/// A pod with an ephemeral volume, whose claim is `pod-data`.
fn ephemeral(changes: Value) -> Pod {
    pod(
        json!({"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
        changes,
    )
}

fn unscheduled() -> Value {
    json!({"spec": {"nodeName": null}})
}

fn phase(phase: &str) -> Value {
    json!({"status": {"phase": phase}})
}

fn shut_down() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}})
}

fn terminating() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}})
}

fn decided(claim: &Claim, name: &str, pods: &[&Pod], finished_pods: FinishedPods) -> Step {
    decide_live(&View {
        name,
        claim,
        pods,
        finished_pods,
    })
}

fn cached(claim: &Claim, pods: &[&Pod]) -> Cached {
    decide(&View {
        name: "claim",
        claim,
        pods,
        finished_pods: FinishedPods::Hold,
    })
}

fn confirmed(claim: &Claim, pods: &[&Pod]) -> Step {
    decided(claim, "claim", pods, FinishedPods::Hold)
}

#[test]
fn claims_without_users() {
    for (row, claim, from_cache, from_live) in [
        (
            "PVC-01 a living claim without the finalizer",
            live(),
            Cached::Do(ADD),
            ADD,
        ),
        (
            "PVC-02 a living claim with it",
            protected(),
            Cached::Do(NOTHING),
            NOTHING,
        ),
        (
            "PVC-04 a deleted claim with it",
            deleted(),
            Cached::Confirm,
            REMOVE,
        ),
        (
            "PVC-24 a deleted claim that lost it",
            claim(true, &["other"]),
            Cached::Do(NOTHING),
            NOTHING,
        ),
    ] {
        assert_eq!(
            (cached(&claim, &[]), confirmed(&claim, &[])),
            (from_cache, from_live),
            "{row}"
        );
    }
}

#[test]
fn deleted_claims_and_the_pods_that_name_them() {
    let other = pod(
        json!({"name": "data", "persistentVolumeClaim": {"claimName": "another"}}),
        json!({}),
    );
    for (row, pod, expected) in [
        ("PVC-08 a running pod uses it", explicit(json!({})), KEEP),
        ("PVC-09 the pod uses another claim", other, REMOVE),
        (
            "PVC-11 a failed pod uses it",
            explicit(phase("Failed")),
            KEEP,
        ),
        (
            "PVC-15 a succeeded pod uses it",
            explicit(phase("Succeeded")),
            KEEP,
        ),
        (
            "PVC-16 the pod has no node",
            explicit(unscheduled()),
            REMOVE,
        ),
        (
            "an empty node name is no node",
            explicit(json!({"spec": {"nodeName": ""}})),
            REMOVE,
        ),
        ("a terminating pod uses it", explicit(terminating()), KEEP),
        (
            "a shut-down pod whose object is still there uses it",
            explicit(shut_down()),
            KEEP,
        ),
    ] {
        assert_eq!(confirmed(&deleted(), &[&pod]), expected, "{row}");
        let from_cache = if expected == REMOVE {
            Cached::Confirm
        } else {
            Cached::Do(expected)
        };
        assert_eq!(
            cached(&deleted(), &[&pod]),
            from_cache,
            "{row}, from the cache"
        );
    }
}

/// PVC-12, PVC-13: the cache is late, and the live LIST contains the pod.
#[test]
fn a_late_cache_only_leads_to_a_live_read() {
    assert_eq!(cached(&deleted(), &[]), Cached::Confirm);
    assert_eq!(confirmed(&deleted(), &[&explicit(json!({}))]), KEEP);
}

#[test]
fn claims_of_ephemeral_volumes() {
    let own = owned_by("pod-uid", deleted());
    for (row, claim, pod, expected) in [
        ("owned and running", &own, ephemeral(json!({})), KEEP),
        (
            "owned and finished",
            &own,
            ephemeral(phase("Succeeded")),
            KEEP,
        ),
        (
            "owned and terminating",
            &own,
            ephemeral(terminating()),
            KEEP,
        ),
        (
            "owned and shut down: the pod may be waiting for the claim",
            &own,
            ephemeral(shut_down()),
            REMOVE,
        ),
        ("owned, no node", &own, ephemeral(unscheduled()), REMOVE),
        (
            "a claim that only has the name",
            &deleted(),
            ephemeral(json!({})),
            REMOVE,
        ),
        (
            "a claim of an earlier pod of that name",
            &owned_by("old-uid", deleted()),
            ephemeral(json!({})),
            REMOVE,
        ),
    ] {
        let decision = decided(claim, "pod-data", &[&pod], FinishedPods::Hold);
        assert_eq!(decision, expected, "{row}");
    }
}

#[test]
fn finished_pods_can_be_ignored() {
    for (row, pod, expected) in [
        ("succeeded", explicit(phase("Succeeded")), REMOVE),
        ("failed", explicit(phase("Failed")), REMOVE),
        ("running", explicit(json!({})), KEEP),
        ("unknown, on a lost node", explicit(phase("Unknown")), KEEP),
        ("terminating", explicit(terminating()), KEEP),
    ] {
        assert_eq!(
            decided(&deleted(), "claim", &[&pod], FinishedPods::Release),
            expected,
            "{row}"
        );
    }
}

fn wakes(old: Option<Pod>, new: Option<Pod>) -> bool {
    let name = ObjectName::new("ns", "pod");
    let (old, new) = (old.map(Arc::new), new.map(Arc::new));
    let woken = claims_to_reconcile(&Change {
        name: &name,
        old: old.as_ref(),
        new: new.as_ref(),
        tombstone: false,
    });
    assert!(woken.iter().all(|claim| claim.to_string() == "ns/claim"));
    !woken.is_empty()
}

#[test]
fn changes_of_pods_enqueue_claims() {
    let running = || Some(explicit(json!({})));
    let changed = |changes: Value| Some(explicit(changes));
    let stopped = json!({"metadata": terminating()["metadata"], "status": {"containerStatuses": [{"state": {"terminated": {}}}]}});
    let half = json!({"metadata": terminating()["metadata"], "status": {"initContainerStatuses": [{"state": {"terminated": {}}}]}});
    let next = changed(json!({"metadata": {"uid": "next"}}));
    let next_without = pod(
        json!({"name": "data", "emptyDir": {}}),
        json!({"metadata": {"uid": "next"}}),
    );
    for (row, old, new, expected) in [
        ("PVC-14 running to running", running(), running(), false),
        ("a new running pod", None, running(), false),
        (
            "PVC-15 succeeded",
            running(),
            changed(phase("Succeeded")),
            true,
        ),
        ("PVC-11 failed", running(), changed(phase("Failed")), true),
        ("PVC-16 without a node", None, changed(unscheduled()), true),
        ("PVC-17 gone", running(), None, true),
        (
            "PVC-18 replaced by a namesake without the claim",
            running(),
            Some(next_without),
            true,
        ),
        (
            "PVC-20 replaced by a namesake with the claim",
            running(),
            next,
            true,
        ),
        ("PVC-21 scheduled", changed(unscheduled()), running(), true),
        (
            "terminating, a container runs",
            running(),
            changed(terminating()),
            false,
        ),
        (
            "terminating, an init container has ended but another runs",
            running(),
            changed(half),
            false,
        ),
        (
            "terminating, no container runs",
            running(),
            changed(stopped),
            true,
        ),
        (
            "shut down, whatever the container statuses say",
            running(),
            changed(shut_down()),
            true,
        ),
    ] {
        assert_eq!(wakes(old, new), expected, "{row}");
    }
}

/// The names of more than 1,000 claims of a pod are not kept.
#[tokio::test]
async fn a_pod_with_too_many_claims_enqueues_those_of_its_namespace_that_are_being_deleted() {
    let volume = |number: u32| json!({"name": number.to_string(), "persistentVolumeClaim": {"claimName": number.to_string()}});
    let volumes: Vec<_> = (0..=1_000).map(volume).collect();
    let wire = |number: usize| {
        let pod = json!({"metadata": {"name": "pod", "uid": "u"},
            "spec": {"nodeName": "node", "volumes": volumes[..number]}});
        serde_json::from_value::<PodWire>(pod).expect("a pod")
    };
    let pod = |number| {
        Pod::track(wire(number))
            .map(Arc::new)
            .expect("it names claims")
    };
    let seen = LastSeen::default();
    let claim = Arc::new(deleted());
    for name in [ObjectName::new("ns", "a"), ObjectName::new("other", "b")] {
        seen.claim(&name, Some(&claim));
    }
    let enqueued = |old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>| {
        let name = ObjectName::new("ns", "pod");
        let change = Change {
            name: &name,
            old,
            new,
            tombstone: false,
        };
        claims_of_namespace(&change, &seen)
    };
    let (many, most) = (pod(1_001), pod(1_000));
    assert_eq!(enqueued(Some(&many), None), [ObjectName::new("ns", "a")]);
    assert_eq!(enqueued(None, Some(&many)), [], "it uses its claims");
    assert_eq!(enqueued(Some(&most), None), [], "its claims are known");
}
