//! Tests of the answers of the webhook of pvc-retention when a live read fails, by user.

use super::*;
use crate::{
    cluster::test_server::{answering, failure, silent},
    objects::stateful_set::StatefulSetWire,
    telemetry::Metrics,
};
use serde_json::{Value, json};

const CONTROLLER: &str = CLAIM_CREATORS[0];
const ALL_CONTROLLERS: &str = CLAIM_CREATORS[1];

/// A StatefulSet whose claims are deleted with it.
fn set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"namespace": "ns", "name": "web", "uid": "set-uid"},
        "spec": {
            "replicas": 1, "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
        },
    })
}

fn wire() -> StatefulSetWire {
    serde_json::from_value(set()).expect("a set")
}

/// A webhook with a simulated API server that answers every GET with this response.
fn webhook(cached: Vec<StatefulSetWire>, answer: (u16, Value)) -> ClaimWebhook {
    webhook_before(cached, move |_| answer.clone())
}

/// A webhook before an API server that answers the GET of each set, by its name, like this.
fn webhook_before(
    cached: Vec<StatefulSetWire>,
    answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
) -> ClaimWebhook {
    let client =
        answering(move |head, _| answer(head.uri.path().rsplit('/').next().unwrap_or_default()));
    let metrics = Arc::new(Metrics::new());
    ClaimWebhook {
        sets: Feed::filled(cached),
        live: LiveGet::new(metrics, &client),
        recently_deleted: Arc::new(RecentlyDeleted::new(REMEMBERED)),
        namespace: None,
    }
}

fn recently_deleted(webhook: ClaimWebhook) -> ClaimWebhook {
    let set = Arc::new(wire().into());
    webhook
        .recently_deleted
        .remember(ObjectName::new("ns", "web"), set);
    webhook
}

async fn answer(webhook: &ClaimWebhook, user: &str, owners: Value) -> &'static str {
    match review(
        webhook,
        user,
        json!({"name": "data-web-0", "ownerReferences": owners}),
    )
    .await
    {
        Ok(Answer::Allow | Answer::Warn(_)) => "allowed",
        Ok(Answer::Patch { .. }) => "stamped",
        Ok(Answer::Deny { .. }) => "refused",
        Err(_) => "unavailable",
    }
}

async fn review(webhook: &ClaimWebhook, user: &str, metadata: Value) -> Reviewed {
    let request = json!({
        "uid": "review", "operation": "CREATE", "namespace": "ns", "name": metadata["name"],
        "userInfo": {"username": user},
        "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
        "object": {"metadata": metadata},
    });
    let request = serde_json::from_value(request).expect("a request");
    webhook.review(&request).await
}

#[tokio::test]
async fn the_watch_the_live_read_and_the_user_decide() {
    let gone = || failure(404, "NotFound");
    let broken = || failure(500, "InternalError");
    for (cached, deleted, live, [by_it, by_any]) in [
        (true, false, (200, set()), ["stamped", "stamped"]),
        (true, false, gone(), ["refused", "allowed"]),
        (true, false, broken(), ["allowed", "allowed"]),
        (false, true, gone(), ["refused", "allowed"]),
        (false, true, broken(), ["refused", "allowed"]),
        (false, false, (200, set()), ["stamped", "stamped"]),
        (false, false, gone(), ["refused", "allowed"]),
        (false, false, broken(), ["allowed", "allowed"]),
    ] {
        let cached_sets = if cached { vec![wire()] } else { vec![] };
        let code = live.0;
        let webhook = webhook(cached_sets, live);
        let webhook = if deleted {
            recently_deleted(webhook)
        } else {
            webhook
        };
        let case = format!("cached {cached}, deleted {deleted}, GET {code}");
        let none = json!(null);
        assert_eq!(
            answer(&webhook, CONTROLLER, none.clone()).await,
            by_it,
            "{case}"
        );
        assert_eq!(
            answer(&webhook, ALL_CONTROLLERS, none.clone()).await,
            by_any,
            "{case}"
        );
        assert_eq!(answer(&webhook, "jane", none).await, "allowed", "{case}");
    }
}

/// The API server does not answer, and the watch still has an earlier StatefulSet of that name.
#[tokio::test(start_paused = true)]
async fn no_claim_gets_an_owner_from_the_watch_alone() {
    let client = silent();
    for (when_deleted, when_scaled, marked) in [
        ("Delete", "Retain", false),
        ("Delete", "Delete", false),
        ("Retain", "Retain", false),
        // The marker alone deletes no claim: the reconciler reads the StatefulSet and the pods
        // before that.
        ("Retain", "Delete", true),
    ] {
        let cached = named("web", "data", (when_deleted, when_scaled));
        let webhook = webhook(vec![read(cached)], (200, json!(null)));
        let webhook = ClaimWebhook {
            live: LiveGet::new(Arc::new(Metrics::new()), &client),
            ..webhook
        };
        let answer = review(&webhook, CONTROLLER, json!({"name": "data-web-0"})).await;
        let patch = match answer.expect("an answer") {
            Answer::Patch { operations, .. } => json!(operations).to_string(),
            Answer::Allow => String::new(),
            other => unreachable!("{other:?}"),
        };
        let case = format!("{when_deleted} {when_scaled}: {patch}");
        assert!(!patch.contains("ownerReferences"), "{case}");
        assert_eq!(patch.contains("scaled-with"), marked, "{case}");
    }
}

fn read(set: Value) -> StatefulSetWire {
    serde_json::from_value(set).expect("a set")
}

/// The claim of an ephemeral volume may have a name that a set's claim could have.
#[tokio::test]
async fn a_claim_with_a_controller_is_left_unchanged() {
    let webhook = recently_deleted(webhook(vec![], failure(404, "NotFound")));
    let pod = json!([{"apiVersion": "v1", "kind": "Pod", "name": "data", "uid": "p", "controller": true}]);
    for user in [CONTROLLER, ALL_CONTROLLERS] {
        assert_eq!(answer(&webhook, user, pod.clone()).await, "allowed");
    }
}

/// A set of that name and template, whose `matchLabels` are `{name: yes}`.
fn named(name: &str, template: &str, policy: (&str, &str)) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"namespace": "ns", "name": name, "uid": format!("uid of {name}")},
        "spec": {
            "replicas": 1, "volumeClaimTemplates": [{"metadata": {"name": template}}],
            "selector": {"matchLabels": {name: "yes"}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": policy.0, "whenScaled": policy.1},
        },
    })
}

/// The uids in the patch with which the webhook answers for the new claim `a-b-c-0`, which has the
/// label `{label: yes}`.
async fn reviewed_creation(webhook: &ClaimWebhook, label: &str) -> String {
    let metadata = json!({"name": "a-b-c-0", "labels": {label: "yes"}});
    match review(webhook, CONTROLLER, metadata).await {
        Ok(Answer::Allow | Answer::Warn(_)) => "allowed".to_owned(),
        Ok(Answer::Patch { operations, .. }) => {
            let written = serde_json::to_string(&operations).expect("JSON");
            let uids = ["c", "b-c"].map(|set| written.contains(&format!("\"uid of {set}\"")));
            format!("c: {}, b-c: {}", uids[0], uids[1])
        }
        Ok(Answer::Deny { .. }) => "refused".to_owned(),
        Err(_) => "unavailable".to_owned(),
    }
}

/// `a-b-c-0` is a claim of the set `c` with the template `a-b`, or of `b-c` with `a`.
#[tokio::test]
async fn every_reading_of_an_ambiguous_name_is_read_live() {
    let (delete, keep, mark) = (
        ("Delete", "Delete"),
        ("Retain", "Retain"),
        ("Retain", "Delete"),
    );
    let (c, b_c) = ("c: true, b-c: false", "c: false, b-c: true");
    let gone = || failure(404, "NotFound");
    let broken = || failure(500, "InternalError");
    let there = |name: &str, template: &str| (200, named(name, template, delete));
    let (set_c, set_bc) = (|| there("c", "a-b"), || there("b-c", "a"));
    for (cached, live_c, live_bc, label, expected) in [
        // The watch knows only `c`, and the claim is the first one of `b-c`.
        (vec![("c", "a-b", delete)], set_c(), set_bc(), "b-c", b_c),
        (vec![("c", "a-b", mark)], set_c(), set_bc(), "b-c", b_c),
        (vec![("c", "a-b", keep)], set_c(), set_bc(), "b-c", b_c),
        (
            vec![("c", "a-b", delete)],
            set_c(),
            set_bc(),
            "neither",
            "allowed",
        ),
        (vec![("c", "a-b", delete)], set_c(), set_bc(), "c", c),
        // Without the labels of `c`, the claim does not belong to `c`, though no other StatefulSet
        // exists.
        (
            vec![("c", "a-b", delete)],
            set_c(),
            gone(),
            "b-c",
            "allowed",
        ),
        (vec![("c", "a-b", delete)], set_c(), gone(), "c", c),
        // The other StatefulSet has no template that fits the name.
        (
            vec![("c", "a-b", delete)],
            set_c(),
            there("b-c", "z"),
            "c",
            c,
        ),
        // A StatefulSet that cannot be read may be the one that the claim belongs to.
        (
            vec![("c", "a-b", delete)],
            set_c(),
            broken(),
            "c",
            "allowed",
        ),
        (
            vec![("c", "a-b", delete)],
            broken(),
            set_bc(),
            "b-c",
            "allowed",
        ),
        (vec![], set_c(), broken(), "c", "allowed"),
        (vec![], broken(), broken(), "c", "allowed"),
        (vec![], set_c(), set_bc(), "b-c", b_c),
        // The StatefulSet of the claim is deleted.
        (vec![("c", "a-b", delete)], gone(), gone(), "c", "refused"),
        (
            vec![("c", "a-b", delete), ("b-c", "a", delete)],
            gone(),
            set_bc(),
            "c",
            "refused",
        ),
        (
            vec![("c", "a-b", mark), ("b-c", "a", delete)],
            gone(),
            set_bc(),
            "c",
            "allowed",
        ),
        (vec![("c", "a-b", keep)], gone(), gone(), "b-c", "allowed"),
        (vec![], gone(), gone(), "c", "refused"),
    ] {
        let case = format!("{cached:?} {live_c:?} {live_bc:?} {label}");
        let cached = cached.into_iter().map(|(name, template, policy)| {
            serde_json::from_value(named(name, template, policy)).expect("a set")
        });
        let webhook = webhook_before(cached.collect(), move |set| match set {
            "c" => live_c.clone(),
            "b-c" => live_bc.clone(),
            other => unreachable!("no reading has the set {other}"),
        });
        assert_eq!(reviewed_creation(&webhook, label).await, expected, "{case}");
    }
}

/// The default policy writes nothing, so the claims of such sets cost no reads.
#[tokio::test]
async fn nothing_is_read_for_a_set_that_retains_all() {
    let cached = named("c", "a-b", ("Retain", "Retain"));
    let cached = serde_json::from_value(cached).expect("a set");
    let webhook = webhook_before(vec![cached], |set| unreachable!("{set} is read"));
    assert_eq!(reviewed_creation(&webhook, "c").await, "allowed");
}

/// If the set was deleted less than a minute ago and cannot be read, the claim is refused.
#[tokio::test]
async fn a_claim_of_sets_that_the_watch_shows_as_deleted_is_refused() {
    for (policy, expected) in [("Delete", "refused"), ("Retain", "allowed")] {
        let webhook = webhook(vec![], failure(500, "InternalError"));
        let set = named("c", "a-b", (policy, "Delete"));
        let set: StatefulSetWire = serde_json::from_value(set).expect("a set");
        let name = ObjectName::new("ns", "c");
        webhook
            .recently_deleted
            .remember(name, Arc::new(set.into()));
        assert_eq!(reviewed_creation(&webhook, "c").await, expected, "{policy}");
    }
}

/// The set was recreated with another template: it exists, and does not create this claim.
#[tokio::test]
async fn the_refusal_says_what_does_not_exist() {
    let other = named("web", "logs", ("Delete", "Retain"));
    for (live, expected) in [
        (
            failure(404, "NotFound"),
            "statefulset \"web\" does not exist",
        ),
        (
            (200, other),
            "statefulset \"web\" has no volume claim template \"data\"",
        ),
    ] {
        let webhook = webhook(vec![wire()], live);
        let answer = review(&webhook, CONTROLLER, json!({"name": "data-web-0"})).await;
        let Ok(Answer::Deny { message, .. }) = answer else {
            unreachable!("{answer:?}");
        };
        assert!(message.starts_with(expected), "{message}");
    }
}
