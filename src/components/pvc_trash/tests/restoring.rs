//! Tests of which claims the webhook lets restore data.

use super::{
    record,
    scene::{Scene, Server},
};
use crate::{
    admission::{Answer, Request, Reviewed},
    cluster::Feeds,
    components::pvc_trash::{
        caches::Caches,
        webhooks::{Reviews, deletions, hooks},
    },
    objects::trash::{MAX_UNBINDABLE, TRASH, UNDELETE},
    telemetry::Metrics,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;

const DELETED: &str = "2026-01-01T00:00:00Z";

/// A cluster with these volumes besides `pv`, and with a namespace of this uid.
fn server(namespace: &'static str, others: Vec<Value>) -> Server {
    Server {
        created: Mutex::default(),
        claims: Vec::new(),
        namespace: Some(namespace),
        attached: None,
        others,
        unreadable: None,
        refuses: false,
        slow: None,
        interrupts: None,
        time: DELETED.parse().expect("a time"),
        patches: Mutex::default(),
        stored: Mutex::default(),
        writes: Mutex::default(),
    }
}

/// The reviews of a cluster with these volumes, the first of which is `pv`, and with a namespace of
/// this uid.
fn reviews(namespace: &'static str, volume: Value, others: Vec<Value>) -> Arc<Reviews> {
    let server = server(namespace, others.clone());
    let time = server.time;
    let scene = Scene::new(server, time, volume, &[]);
    for other in others {
        if other["metadata"]["name"] == "pv" {
            scene.server.stored.lock().0 = other.clone();
        }
        let other = serde_json::from_value(other).expect("a volume");
        scene.reconciler.caches.volumes.deliver(other, true);
    }
    reviews_of(&scene)
}

fn reviews_of(scene: &Scene) -> Arc<Reviews> {
    Arc::new(Reviews {
        caches: scene.reconciler.caches.clone(),
        live: scene.reconciler.live.clone(),
    })
}

/// The answer about a claim that requests this text, while the claim `data` of the namespace with
/// the uid `n` is in the trash.
async fn answered(requested: &str, namespace: &'static str, changes: Value) -> Answer {
    let mut kept = record("1", json!({"deletedAt": DELETED}));
    json_patch::merge(&mut kept, &changes);
    let volume = json!({
        "metadata": {"name": "pv", "uid": "v", "annotations": {TRASH: kept.to_string()}},
        "spec": {"persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": "ns", "name": "data", "uid": "1"}},
        "status": {"phase": "Released"},
    });
    review(&reviews(namespace, volume, Vec::new()), requested).await
}

/// The answer about a claim that requests this text.
async fn review(reviews: &Arc<Reviews>, requested: &str) -> Answer {
    review_of(reviews, requested, json!({})).await
}

/// The answer about a claim with this spec that requests this text.
async fn review_of(reviews: &Arc<Reviews>, requested: &str, spec: Value) -> Answer {
    reviewed(reviews, requested, spec).await.expect("an answer")
}

async fn reviewed(reviews: &Arc<Reviews>, requested: &str, spec: Value) -> Reviewed {
    let hooks = hooks(reviews);
    let claim =
        json!({"metadata": {"name": "again", "annotations": {UNDELETE: requested}}, "spec": spec});
    let request = json!({
        "uid": "review", "operation": "CREATE", "namespace": "ns", "name": "again", "object": claim,
        "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
    });
    let request: Request = serde_json::from_value(request).expect("a request");
    hooks[1].review.answer(Arc::new(request)).await
}

async fn refusal(requested: &str, namespace: &'static str, changes: Value) -> String {
    match answered(requested, namespace, changes).await {
        Answer::Deny { message, .. } => message,
        other => unreachable!("{other:?}"),
    }
}

#[tokio::test]
async fn the_data_of_an_earlier_namespace_does_not_show() {
    for requested in ["data", "pvc/data", "pv", "pv/pv"] {
        let answer = answered(requested, "n", json!({})).await;
        assert!(matches!(answer, Answer::Patch { .. }), "{answer:?}");
    }
    let unknown = json!({"claim": {"namespaceUid": null}});
    refusal("data", "n", unknown).await;
    let earlier = refusal("data", "recreated", json!({})).await;
    let other = refusal("other", "recreated", json!({})).await;
    assert_eq!(earlier.replace("data", "other"), other);
}

/// A volume in the trash, of a deleted claim of this name.
fn deleted(name: &str, claim: &str, at: Value) -> Value {
    let kept = record("1", json!({"deletedAt": at, "claim": {"name": claim}}));
    json!({
        "metadata": {"name": name, "uid": name, "annotations": {TRASH: kept.to_string()}},
        "spec": {"persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": "ns", "name": claim, "uid": "1"}},
        "status": {"phase": "Released"},
    })
}

/// The volume that a claim with this request gets, or why it is refused, where these volumes are
/// in the trash, too: each with the deleted claim, the time of the deletion, and the
/// `resourceVersion` of the claim when it was bound.
async fn chosen(requested: &str, others: &[(&str, &str, Value, Option<&str>)]) -> String {
    let others = others.iter().map(|(name, claim, at, bound)| {
        let mut volume = deleted(name, claim, at.clone());
        volume["spec"]["claimRef"]["resourceVersion"] = json!(bound);
        volume
    });
    let reviews = reviews("n", deleted("pv", "data", json!(DELETED)), others.collect());
    match review(&reviews, requested).await {
        Answer::Patch { operations, .. } => {
            let mut claim = json!({"metadata": {"annotations": {}}, "spec": {}});
            json_patch::patch(&mut claim, &operations).expect("applies");
            claim["spec"]["volumeName"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        }
        Answer::Deny { message, .. } => message,
        other => unreachable!("{other:?}"),
    }
}

/// The watch of this replica may be minutes late: the volume was purged, given to another claim, or
/// cannot be read.
#[tokio::test]
async fn no_claim_names_a_volume_that_is_not_in_the_trash_any_more() {
    let deleted = || deleted("pv", "data", json!(DELETED));
    let mut given = deleted();
    let record = record(
        "2",
        json!({"deletedAt": DELETED, "claim": {"name": "other"}}),
    );
    given["metadata"]["annotations"] = json!({TRASH: record.to_string()});
    given["spec"]["claimRef"]["uid"] = json!("2");
    let mut purged = deleted();
    purged["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
    for (live, is_restored) in [
        (deleted(), true),
        (Value::Null, false),
        (given, false),
        (purged, false),
    ] {
        let server = server("n", Vec::new());
        let time = server.time;
        let scene = Scene::new(server, time, deleted(), &[]);
        scene.server.stored.lock().0 = live.clone();
        let answer = review(&reviews_of(&scene), "data").await;
        match answer {
            Answer::Patch { .. } => assert!(is_restored, "{live}"),
            Answer::Deny { message, .. } => {
                assert!(
                    !is_restored && message.contains("no deleted claim"),
                    "{message}"
                );
            }
            other => unreachable!("{other:?}"),
        }
    }
}

/// Only the volume of the claim that was deleted last is read. It was purged, and that of an earlier
/// claim of the name may be the one that counts now.
#[tokio::test]
async fn a_request_waits_for_a_late_watch() {
    let earlier = deleted("a", "data", json!("2025-12-31T23:59:59Z"));
    let server = server("n", vec![earlier.clone()]);
    let time = server.time;
    let scene = Scene::new(server, time, deleted("pv", "data", json!(DELETED)), &[]);
    let earlier = serde_json::from_value(earlier).expect("a volume");
    let volumes = &scene.reconciler.caches.volumes;
    volumes.deliver(earlier, true);
    scene.server.stored.lock().0 = Value::Null;
    let outcome = reviewed(&reviews_of(&scene), "data", json!({})).await;
    let why = outcome.expect_err("no answer").to_string();
    assert!(why.contains("the watch of volumes is late"), "{why}");
}

/// A deletion whose time is recorded only a moment later counts as the latest one. A volume of the
/// requested name comes before the volume of a claim of that name.
#[tokio::test]
async fn the_last_deletion_is_undone_and_a_volume_comes_before_a_claim() {
    let unrecorded = || Value::Null;
    let others = [
        ("a", "data", unrecorded(), None),
        ("b", "pv", unrecorded(), None),
    ];
    assert_eq!(chosen("data", &others).await, "a");
    assert_eq!(chosen("pvc/pv", &others).await, "b");
    assert_eq!(chosen("pv/pv", &others).await, "pv");
}

/// The namespace of the claim that was deleted last is not known by uid, so its volume is not given
/// away, and an earlier claim is no substitute. The name of the volume selects the earlier one.
#[tokio::test]
async fn a_claim_of_an_unknown_namespace_may_be_the_last_one() {
    for (at, data, by_name) in [
        (json!("2025-12-31T23:59:59Z"), true, true),
        (json!("2026-12-31T23:59:59Z"), false, true),
    ] {
        let claim = json!({"name": "data", "namespaceUid": null});
        let kept = record("1", json!({"deletedAt": at, "claim": claim}));
        let mut volume = deleted("unknown", "data", at.clone());
        volume["metadata"]["annotations"] = json!({TRASH: kept.to_string()});
        let reviews = reviews("n", deleted("pv", "data", json!(DELETED)), vec![volume]);
        for (requested, is_restored) in [("pvc/data", data), ("pv/pv", by_name)] {
            let answer = review(&reviews, requested).await;
            let restored = matches!(answer, Answer::Patch { .. });
            assert_eq!(restored, is_restored, "{at} {requested}: {answer:?}");
        }
        let unknown = review(&reviews, "pv/unknown").await;
        assert!(matches!(unknown, Answer::Deny { .. }), "{unknown:?}");
    }
}

/// A claim of a name is created after the deletion of the earlier one. So its later
/// `resourceVersion` shows that it was deleted later, also within one second, and if its deletion
/// was seen earlier.
#[tokio::test]
async fn of_claims_of_one_name_the_one_that_was_bound_last_was_deleted_last() {
    let (early, now) = (json!("2025-12-31T00:00:00Z"), json!(DELETED));
    let of = |name, at: &Value, bound| (name, "data", at.clone(), Some(bound));
    for (others, expected) in [
        ([of("pv", &now, "9"), of("a", &now, "10")], "a"),
        ([of("pv", &now, "9"), of("z", &now, "10")], "z"),
        ([of("pv", &now, "10"), of("z", &now, "9")], "pv"),
        ([of("pv", &now, "9"), of("a", &early, "10")], "a"),
        (
            [of("pv", &Value::Null, "9"), of("a", &Value::Null, "10")],
            "a",
        ),
    ] {
        assert_eq!(chosen("pvc/data", &others).await, expected, "{others:?}");
    }
}

/// The volume of the claim that was deleted last is not in the trash yet, or not any more.
#[tokio::test]
async fn an_earlier_claim_is_not_restored_instead_of_the_last_one() {
    let of_two = |changes: &Value, of_record: &Value, claims: &[Value]| {
        let reviews = reviews("n", deleted("pv", "data", json!(DELETED)), Vec::new());
        let mut record = record("2", of_record.clone());
        record["claim"]["namespaceUid"] = "n".into();
        let mut late = deleted("late", "data", Value::Null);
        late["metadata"]["annotations"][TRASH] = record.to_string().into();
        late["spec"]["claimRef"]["uid"] = "2".into();
        json_patch::merge(&mut late, changes);
        let late = serde_json::from_value(late).expect("a volume");
        reviews.caches.volumes.deliver(late, true);
        for claim in claims {
            let claim = serde_json::from_value(claim.clone()).expect("a claim");
            reviews.caches.claims.deliver(claim, true);
        }
        reviews
    };
    let bound = json!({"status": {"phase": "Bound"}});
    let reserved = json!({"spec": {"claimRef": {"uid": ""}}, "status": {"phase": "Available"}});
    let renamed = json!({"spec": {"claimRef": {"name": "restored", "uid": ""}},
        "status": {"phase": "Available"}});
    let returned = json!({"status": {"phase": "Available"}});
    for (changes, of_record) in [
        (&bound, json!({})),
        (&reserved, json!({"reservedAt": DELETED})),
        (&renamed, json!({"reservedAt": DELETED})),
        (&returned, json!({"returnedAt": DELETED})),
    ] {
        let reviews = of_two(changes, &of_record, &[]);
        let Answer::Deny { message, .. } = review(&reviews, "pvc/data").await else {
            unreachable!("{changes}");
        };
        assert!(message.contains("try again"), "{message}");
        let exact = review(&reviews, "pv/pv").await;
        assert!(matches!(exact, Answer::Patch { .. }), "{exact:?}");
    }
    // The later claim exists, or is being deleted, or the watch shows it although a claim of its
    // name is created.
    let later = |name: &str, deleted: Value| {
        let metadata =
            json!({"namespace": "ns", "name": name, "uid": "2", "deletionTimestamp": deleted});
        json!({"metadata": metadata, "spec": {"volumeName": "late"}})
    };
    let deleted = json!({"spec": {"claimRef": {"name": "again"}}, "status": {"phase": "Bound"}});
    for (changes, claim, refusal) in [
        (&bound, later("data", Value::Null), None),
        (&bound, later("data", json!(DELETED)), Some("try again")),
        (&deleted, later("again", Value::Null), Some("--new-name")),
    ] {
        let reviews = of_two(changes, &json!({}), std::slice::from_ref(&claim));
        match (review(&reviews, "pvc/data").await, refusal) {
            (Answer::Patch { .. }, None) => {}
            (Answer::Deny { message, .. }, Some(words)) => {
                assert!(message.contains(words), "{message}");
            }
            (answer, _) => panic!("{claim}: {answer:?}"),
        }
    }
}

#[tokio::test]
async fn a_request_is_refused_if_the_order_of_deletions_is_not_known() {
    let same = [("b", "data", json!(DELETED), None)];
    let message = chosen("pvc/data", &same).await;
    for words in ["\"pv/b\"", "\"pv/pv\"", "deleted last", "--volume"] {
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(chosen("pv/b", &same).await, "b");
}

/// A backup, or the manifest of a claim that was restored before, has the annotation, too.
#[tokio::test]
async fn a_claim_that_gets_its_data_elsewhere_requests_nothing() {
    let reviews = reviews("n", deleted("pv", "data", json!(DELETED)), Vec::new());
    let answer = |spec: Value, requested: &'static str| {
        let reviews = reviews.clone();
        async move { review_of(&reviews, requested, spec).await }
    };
    let snapshot = json!({"dataSource": {"apiGroup": "snapshot.storage.k8s.io",
        "kind": "VolumeSnapshot", "name": "daily"}});
    let reference = json!({"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "other"}});
    let other = json!({"volumeName": "another"});
    for (spec, requested) in [
        (snapshot, "pvc/data"),
        (reference, "pvc/data"),
        (other.clone(), "pvc/data"),
        (other, "pvc/gone"),
    ] {
        let Answer::Patch {
            operations,
            warnings,
            ..
        } = answer(spec.clone(), requested).await
        else {
            unreachable!("{spec}");
        };
        let mut claim = json!({"metadata": {"annotations": {UNDELETE: requested}}, "spec": spec});
        let before = claim["spec"].clone();
        json_patch::patch(&mut claim, &operations).expect("applies");
        let found = (&claim["metadata"]["annotations"], &claim["spec"]);
        assert_eq!(found, (&json!({}), &before));
        assert!(warnings[0].contains("was removed"), "{warnings:?}");
    }
    // Without another origin, the claim would get an empty volume.
    let gone = answer(json!({}), "pvc/gone").await;
    assert!(matches!(gone, Answer::Deny { .. }), "{gone:?}");
    let own = answer(json!({"volumeName": "pv"}), "pvc/data").await;
    assert!(matches!(own, Answer::Patch { operations, .. } if operations.len() > 1));
}

/// Static volumes are often named after claims, also after those of others.
#[tokio::test]
async fn a_name_of_two_deleted_claims_is_refused_and_the_answer_says_how_to_be_exact() {
    let with_another = |namespace: &str| {
        let mut kept = record("1", json!({"deletedAt": DELETED, "claim": {"name": "pv"}}));
        kept["claim"]["namespaceUid"] = namespace.into();
        let mut volume = deleted("b", "pv", json!(DELETED));
        volume["metadata"]["annotations"][TRASH] = kept.to_string().into();
        reviews("n", deleted("pv", "data", json!(DELETED)), vec![volume])
    };
    let answer = review(&with_another("earlier"), "pv").await;
    assert!(matches!(answer, Answer::Patch { .. }), "{answer:?}");
    let reviews = with_another("n");
    let Answer::Deny { message, .. } = review(&reviews, "pv").await else {
        unreachable!("a claim could get the data of another one");
    };
    for words in [r#""pvc/pv""#, r#""pv/pv""#] {
        assert!(message.contains(words), "{message}");
    }
    for (requested, volume) in [("pv/pv", "pv"), ("pvc/pv", "b"), ("data", "pv")] {
        let Answer::Patch { operations, .. } = review(&reviews, requested).await else {
            unreachable!("{requested} is exact");
        };
        let mut claim = json!({"metadata": {"annotations": {}}, "spec": {}});
        json_patch::patch(&mut claim, &operations).expect("applies");
        assert_eq!(claim["spec"]["volumeName"], volume, "{requested}");
    }
}

#[tokio::test]
async fn a_claim_of_a_namespace_that_is_not_handled_does_not_wait_for_data() {
    let live = reviews("n", deleted("pv", "data", json!(DELETED)), Vec::new())
        .live
        .clone();
    let feeds = Feeds::new(&Arc::new(Metrics::new()));
    let caches = Caches::new(&feeds, Some("shop"), u64::MAX);
    let reviews = Arc::new(Reviews { caches, live });
    let Answer::Deny { message, .. } = review(&reviews, "data").await else {
        unreachable!("nothing would ever restore the claim");
    };
    assert!(message.contains("--namespace=shop"), "{message}");
}

/// The warning of a deletion promises only what holds.
#[tokio::test]
async fn who_deletes_a_claim_learns_how_to_restore_it() {
    let warned = |kept: Value, changes: Value| {
        let mut volume = deleted("pv", "data", Value::Null);
        let mut record = record("1", json!({}));
        json_patch::merge(&mut record, &kept);
        volume["metadata"]["annotations"][TRASH] = record.to_string().into();
        json_patch::merge(&mut volume, &changes);
        let request = json!({
            "uid": "review", "operation": "DELETE", "namespace": "ns", "name": "data",
            "oldObject": {"metadata": {"name": "data", "uid": "1"}, "spec": {"volumeName": "pv"}},
            "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
        });
        let request: Request = serde_json::from_value(request).expect("a request");
        match deletions(&reviews("n", volume, Vec::new())).remembered(&request) {
            Ok(Answer::Warn(warnings)) => warnings.into_iter().next(),
            Ok(Answer::Allow) => None,
            other => unreachable!("{other:?}"),
        }
    };
    let command = "volume-warden undelete pvc data -n ns";
    let hour = warned(json!({}), json!({})).expect("a warning");
    assert!(
        hour.contains("is kept for 1h") && hour.ends_with(command),
        "{hour}"
    );
    let retained = json!({"policy": "Retain", "windowSeconds": 0});
    let retained = warned(retained, json!({})).expect("a warning");
    assert!(retained.contains("until an administrator"), "{retained}");
    let unknown = json!({"claim": {"namespaceUid": null}});
    let unknown = warned(unknown, json!({})).expect("a warning");
    assert!(unknown.ends_with("-n ns --to-namespace ns"), "{unknown}");
    let policy = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}});
    let deleted = json!({"metadata": {"deletionTimestamp": DELETED}});
    for (kept, changes) in [
        (json!({"policy": "Retain"}), policy),
        (json!({}), deleted),
        (json!({"windowSeconds": 0}), json!({})),
        (json!({"claim": {"uid": "2"}}), json!({})),
    ] {
        assert_eq!(warned(kept.clone(), changes), None, "{kept}");
    }
}

/// The answer and the log do not repeat a tenant's text that is no valid name.
#[tokio::test]
async fn a_text_that_is_no_name_is_refused_without_it() {
    let message = refusal(&"x".repeat(254), "n", json!({})).await;
    assert!(message.contains("longer than 253 bytes"), "{message}");
    assert!(!message.contains("xx"), "{message}");
    let longest = refusal(&"x".repeat(253), "n", json!({})).await;
    assert!(longest.contains("no deleted claim \"xx"), "{longest}");
}

/// pvc-trash would never reserve the volume for this claim, so the webhook refuses the claim.
#[tokio::test]
async fn no_claim_follows_too_many_that_could_not_be_bound() {
    let unbindable = |number: usize| {
        let uids: Vec<_> = (0..number).map(|uid| uid.to_string()).collect();
        json!({"unbindable": uids})
    };
    let answer = answered("data", "n", unbindable(MAX_UNBINDABLE - 1)).await;
    assert!(matches!(answer, Answer::Patch { .. }), "{answer:?}");
    let message = refusal("data", "n", unbindable(MAX_UNBINDABLE)).await;
    assert!(message.contains("only an administrator"), "{message}");
}
