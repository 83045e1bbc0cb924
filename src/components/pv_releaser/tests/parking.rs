//! Tests of the scope `namespace`: what is recorded, parked, handed over and parked again.

use super::{
    Decision::{Leave, Record, Release},
    LeaveReason::{InUse, InvalidScope},
    patch::{park, record, release},
    scene::{Scene, claim, claimed, labelled},
    *,
};
use crate::{
    admission::{Answer, Request},
    cluster::Reconcile,
    objects::{
        ObjectName,
        reuse::{CLAIM_NAMESPACE, RELEASE_SCOPE, RESERVED_AT},
    },
};

/// Changes of a volume whose claim was recorded with this value.
fn recorded(value: &str) -> Value {
    json!({"metadata": {"annotations": {CLAIM_NAMESPACE: value}}})
}

fn scoped(scope: &str) -> Value {
    label(RELEASE_SCOPE, scope)
}

/// Changes of a volume that make it a parked one, of the namespace with this uid.
pub(super) fn parked(namespace_uid: &str) -> Value {
    json!({
        "metadata": {"annotations": {CLAIM_NAMESPACE: format!("ns/{namespace_uid}/1")}},
        "spec": {"claimRef": {"namespace": "volume-warden", "name": "parked-pv-uid", "uid": null},
            "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"]},
        "status": {"phase": "Available"},
    })
}

pub(super) fn reserved(namespace_uid: &str, reserved_at: Option<&str>) -> Value {
    let mut changes = parked(namespace_uid);
    let claim = json!({"namespace": "ns", "name": "data", "uid": null});
    changes["spec"]["claimRef"] = claim;
    changes["metadata"]["annotations"][RESERVED_AT] = json!(reserved_at);
    changes
}

pub(super) fn wanted(changes: Value) -> Value {
    changed(
        json!({"metadata": {"namespace": "ns", "name": "data", "uid": "2"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}}}}),
        changes,
    )
}

pub(super) fn review(claim: &Value, dry_run: bool) -> Request {
    let review = json!({
        "uid": "review", "operation": "CREATE", "namespace": claim["metadata"]["namespace"], "name": "",
        "dryRun": dry_run, "object": claim,
        "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
    });
    serde_json::from_value(review).expect("a request")
}

pub(super) fn patches(scene: &Scene) -> Vec<Value> {
    scene.server.sent("PATCH persistentvolumes")
}

/// The claimRef in the last patch.
pub(super) fn reference(patch: &Value) -> Value {
    let operations = patch.as_array().into_iter().flatten();
    let mut claim_refs = operations.filter(|each| each["path"] == "/spec/claimRef");
    claim_refs
        .next()
        .map_or(Value::Null, |each| each["value"].clone())
}

#[test]
fn the_scope_decides_who_gets_a_released_volume() {
    let own_id = Options {
        id: "own".parse().expect("an id"),
        ..Options::default()
    };
    assert_eq!(
        (Options::default().scope(), own_id.scope()),
        (Scope::Namespace, Scope::Cluster)
    );
    let of_class = |scope: &str| Else {
        class: Some(StorageClass {
            uid: "1".into(),
            controller_id: None,
            undelete_window: None,
            undelete_window_max: None,
            release_scope: Some(scope.into()),
            expire_unused: None,
            rebind: None,
        }),
        ..NOTHING
    };
    let known = || recorded("ns/n/1");
    table! { Options::default();
        "recorded": volume(known()), NOTHING => Release(Scope::Namespace, ());
        "not recorded": volume(json!({})), NOTHING => Record;
        "recorded for an earlier claim": volume(recorded("ns/n/0")), NOTHING => Record;
        "recorded for another namespace": volume(recorded("other/n/1")), NOTHING => Record;
        "damaged": volume(recorded("ns/n")), NOTHING => Record;
        "by its label": volume(scoped("cluster")), NOTHING => Release(Scope::Cluster, ());
        "by its class": volume(json!({})), of_class("cluster") => Release(Scope::Cluster, ());
        "label before class": volume(scoped("cluster")), of_class("namespace") => Release(Scope::Cluster, ());
        "invalid label": volume(scoped("tenant")), NOTHING => Leave(InvalidScope);
        "invalid label, valid class": volume(scoped("")), of_class("cluster") => Leave(InvalidScope);
        "invalid class": volume(known()), of_class("Cluster") => Leave(InvalidScope);
        "Bound": volume(phase("Bound")), NOTHING => Record;
        "Bound and recorded": volume(changed(known(), phase("Bound"))), NOTHING => Leave(InUse);
        "Bound to the next claim": volume(changed(recorded("ns/n/0"), phase("Bound"))), NOTHING => Record;
        "Bound, for any claim": volume(changed(scoped("cluster"), phase("Bound"))), NOTHING => Leave(InUse);
        "Bound, to be deleted": volume(changed(policy("Delete"), phase("Bound"))), NOTHING => Leave(InUse);
    }
    table! { cluster();
        "by its label": volume(changed(known(), scoped("namespace"))), NOTHING => Release(Scope::Namespace, ());
    }
}

/// A soft release keeps the volume for a claim of the same name: in a recreated namespace, that of
/// another tenant may be waiting for it.
#[tokio::test(start_paused = true)]
async fn a_soft_release_requires_that_the_namespace_still_exists() {
    for (namespace, is_parked) in [(Some("n"), false), (Some("recreated"), true), (None, true)] {
        let scene = Scene::new(Options {
            release_mode: Mode::Soft,
            ..Options::default()
        });
        *scene.server.namespace.lock() = namespace;
        scene.watch_volume("5", changed(labelled(), recorded("ns/n/1")));
        scene.reconcile().await;
        let patches = patches(&scene);
        assert_eq!(patches.len(), 1, "{patches:?}");
        let name = reference(&patches[0])["name"].clone();
        assert_eq!(
            name == "parked-pv-uid",
            is_parked,
            "{namespace:?} {patches:?}"
        );
    }
}

#[test]
fn a_released_volume_of_a_namespace_is_parked() {
    let changes = recorded("ns/n/1");
    let before = wire(changes.clone());
    let operations = release(&volume(changes), Scope::Namespace, &Options::default());
    let mut after = before.clone();
    json_patch::patch(&mut after, &operations).expect("applies");
    let claim_ref = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": "volume-warden", "name": "parked-pv-uid"});
    assert_eq!(after["spec"]["claimRef"], claim_ref);
    assert_eq!(after["metadata"]["labels"], json!({"app": "x"}));
    let annotations = json!({"other": "kept", CLAIM_NAMESPACE: "ns/n/1"});
    assert_eq!(after["metadata"]["annotations"], annotations);
    assert!(read(after).is_parked("volume-warden"));
    // A release in the scope `cluster` removes the record of the namespace.
    let operations = release(&read(before.clone()), Scope::Cluster, &Options::default());
    let mut after = before;
    json_patch::patch(&mut after, &operations).expect("applies");
    assert_eq!(after["metadata"]["annotations"], json!({"other": "kept"}));
}

#[test]
fn a_record_ends_the_reservation() {
    let known = read(wire(reserved("n", Some("2026-01-01T00:00:00Z"))));
    let value = known.record().expect("a record").clone();
    for (mut before, expected) in [
        (
            wire(reserved("n", Some("2026-01-01T00:00:00Z"))),
            json!({"other": "kept"}),
        ),
        (wire(json!({"metadata": {"annotations": null}})), json!({})),
    ] {
        let operations = record(&read(before.clone()), &value);
        json_patch::patch(&mut before, &operations).expect("applies");
        let mut annotations = before["metadata"]["annotations"].clone();
        let written = annotations[CLAIM_NAMESPACE].take();
        assert_eq!(written, json!("ns/n/1"));
        json_patch::merge(
            &mut annotations,
            &json!({CLAIM_NAMESPACE: null, "pv.kubernetes.io/bound-by-controller": null}),
        );
        assert_eq!(annotations, expected);
    }
}

/// The record needs the live namespace and, for a first claim, the live claim with the uid in
/// claimRef.
#[tokio::test(start_paused = true)]
async fn a_record_needs_proof() {
    let there = || Some(claim("1", json!(null)));
    let recreated = || Some(claim("2", json!(null)));
    for (row, namespace, live, before, expected) in [
        ("the claim exists", Some("n"), there(), None, Some("ns/n/1")),
        (
            "another claim of that name",
            Some("n"),
            recreated(),
            None,
            None,
        ),
        ("no claim", Some("n"), None, None, None),
        ("no namespace", None, there(), None, None),
        (
            "known by an earlier claim",
            Some("n"),
            None,
            Some("ns/n/0"),
            Some("ns/n/1"),
        ),
        (
            "another namespace of that name",
            Some("m"),
            None,
            Some("ns/n/0"),
            None,
        ),
        (
            "an earlier claim elsewhere",
            Some("n"),
            None,
            Some("other/n/0"),
            None,
        ),
    ] {
        let scene = Scene::new(Options::default());
        *scene.server.namespace.lock() = namespace;
        *scene.server.claim.lock() = live;
        let earlier = json!({"metadata": {"annotations": {CLAIM_NAMESPACE: before}}});
        scene.watch_volume("5", changed(labelled(), earlier));
        assert!(scene.reconcile().await);
        let sent = patches(&scene);
        let written = sent
            .iter()
            .flat_map(|patch| patch.as_array().into_iter().flatten());
        let written: Vec<_> = written
            .filter_map(|each| {
                let value = &each["value"];
                value.as_str().or(value[CLAIM_NAMESPACE].as_str())
            })
            .filter(|value| value.contains('/'))
            .collect();
        assert_eq!(written, Vec::from_iter(expected), "{row}");
        let reasons = scene.server.reasons();
        assert_eq!(reasons.is_empty(), expected.is_some(), "{row}: {reasons:?}");
        if expected.is_none() {
            let (reason, note) = scene.server.events().remove(0);
            assert!(
                reason == "ErrReleasePV" && note.contains(RELEASE_SCOPE),
                "{row}: {note}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_associated_with_its_record() {
    let scene = Scene::new(Options::default());
    *scene.server.namespace.lock() = Some("n");
    *scene.server.claim.lock() = Some(claim("1", claimed()));
    scene.deliver(&scene.releaser.caches.claims, claim("1", claimed()));
    scene.watch_volume("5", phase("Bound"));
    assert!(scene.reconcile().await);
    let patch = patches(&scene).remove(0).to_string();
    assert!(patch.contains("ns/n/1") && patch.contains(&**US), "{patch}");
}

#[tokio::test(start_paused = true)]
async fn a_recorded_volume_is_parked_and_counted() {
    let scene = Scene::new(Options::default());
    scene.watch_volume("5", changed(labelled(), recorded("ns/n/1")));
    assert!(scene.reconcile().await);
    let name = json!("parked-pv-uid");
    assert_eq!(reference(&patches(&scene)[0])["name"], name);
    let (reason, note) = scene.server.events().remove(0);
    assert!(
        reason == "Released" && note.contains("of its namespace"),
        "{note}"
    );
    let capacity = json!({"spec": {"capacity": {"storage": "1Gi"}}});
    let released = json!({"status": {"phase": "Released"}});
    let parked = changed(parked("n"), capacity);
    // The phase changes later than the claimRef.
    for (version, volume) in [("6", changed(parked.clone(), released)), ("7", parked)] {
        scene.watch_volume(version, volume);
        let text = scene.metrics.text();
        for (metric, value) in [("volumes", 1), ("bytes", 1_073_741_824)] {
            let counted = format!("volume_warden_released_{metric}{{fate=\"Parked\"}} {value}\n");
            assert!(text.contains(&counted), "{text}");
            let family = format!("volume_warden_released_{metric}{{");
            let of_family = text.lines().filter(|line| line.starts_with(&family));
            let fates = of_family.filter(|line| !line.ends_with(" 0")).count();
            assert_eq!(fates, 1, "{text}");
        }
    }
    assert!(scene.reconcile().await);
    assert_eq!(patches(&scene).len(), 1);
}

/// The live namespace, the claim and the kind of the request decide whether a parked volume is
/// reserved for a new claim.
#[tokio::test(start_paused = true)]
async fn a_parked_volume_is_reserved_for_a_new_claim_of_its_namespace() {
    let own = || wanted(json!({}));
    let elsewhere = wanted(json!({"metadata": {"namespace": "other"}}));
    let large = wanted(json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}}));
    for (row, live, claim, dry_run, expected) in [
        ("it fits", Some("n"), own(), false, true),
        ("a dry run", Some("n"), own(), true, false),
        ("a recreated namespace", Some("m"), own(), false, false),
        ("no namespace", None, own(), false, false),
        ("another namespace", Some("n"), elsewhere, false, false),
        ("too large", Some("n"), large, false, false),
    ] {
        let scene = Scene::new(Options::default());
        *scene.server.namespace.lock() = live;
        scene.watch_volume("5", parked("n"));
        let answer = scene
            .releaser
            .reservations
            .review(&review(&claim, dry_run))
            .await;
        assert_eq!(answer.is_err(), live.is_none(), "{row}");
        let sent = patches(&scene);
        assert_eq!(sent.len(), usize::from(expected), "{row}");
        for patch in sent {
            let reference = reference(&patch);
            assert_eq!(
                (&reference["namespace"], &reference["name"]),
                (&json!("ns"), &json!("data"))
            );
            assert_eq!(reference["uid"], json!(null));
        }
        // The watch has not delivered the first reservation yet: the volume is not reserved a
        // second time.
        let again = scene
            .releaser
            .reservations
            .review(&review(&own(), false))
            .await;
        let written = usize::from(live == Some("n"));
        assert_eq!(patches(&scene).len(), written, "{row}: {again:?}");
    }
}

/// The watch of volumes may be silent for minutes, while reviews are answered.
#[tokio::test(start_paused = true)]
async fn a_reservation_is_known_before_the_watch_delivers_it() {
    let scene = Scene::new(Options::default());
    *scene.server.namespace.lock() = Some("n");
    for name in ["a", "b"] {
        let mut changes = parked("n");
        changes["metadata"]["name"] = json!(name);
        changes["metadata"]["uid"] = json!(name);
        changes["spec"]["claimRef"]["name"] = json!(format!("parked-{name}"));
        scene.watch_volume("5", changes);
    }
    let request = review(&wanted(json!({})), false);
    for _ in 0..2 {
        let reviewed = scene.releaser.reservations.review(&request).await;
        assert_eq!(reviewed, Ok(Answer::Allow));
    }
    scene.deliver(&scene.releaser.caches.claims, wanted(json!({})));
    let data = ObjectName::new("ns", "data");
    let served = scene.releaser.reservations.reserve_for_claim(&data).await;
    served.expect("nothing is to be done");
    assert_eq!(patches(&scene).len(), 1, "only one volume is reserved");
    // kube-controller-manager does not compare the class of a claim with a reserved volume.
    let other = wanted(json!({"spec": {"storageClassName": "slow"}}));
    let reviewed = scene
        .releaser
        .reservations
        .review(&review(&other, false))
        .await;
    let refused = matches!(&reviewed, Ok(Answer::Deny { .. }));
    assert!(refused, "the reserved volume does not fit: {reviewed:?}");
    // After a minute, the cached volume counts as current again.
    tokio::time::advance(std::time::Duration::from_secs(120)).await;
    *scene.server.namespace.lock() = Some("m");
    let reviewed = scene.releaser.reservations.review(&request).await;
    let refused = matches!(&reviewed, Ok(Answer::Deny { .. }));
    assert!(refused, "the namespace was recreated: {reviewed:?}");
}

/// The API server calls the webhook before it answers that the claim exists.
#[tokio::test(start_paused = true)]
async fn a_claim_that_exists_gets_no_second_volume() {
    let scene = Scene::new(Options::default());
    *scene.server.namespace.lock() = Some("n");
    scene.watch_volume("5", parked("n"));
    let bound = json!({"spec": {"volumeName": "another"}, "status": {"phase": "Bound"}});
    scene.deliver(&scene.releaser.caches.claims, wanted(bound));
    let request = review(&wanted(json!({})), false);
    let reviewed = scene.releaser.reservations.review(&request).await;
    assert_eq!(reviewed, Ok(Answer::Allow));
    assert!(patches(&scene).is_empty());
}

/// The reservation is that of the claim that exists: the API server refuses the second one.
#[tokio::test(start_paused = true)]
async fn a_second_creation_does_not_end_the_reservation_of_the_claim() {
    for exists in [true, false] {
        let scene = Scene::new(Options::default());
        *scene.server.namespace.lock() = Some("n");
        scene.watch_volume("5", reserved("n", Some("2026-01-01T00:00:00Z")));
        // The watch may show a claim that is deleted.
        scene.deliver(&scene.releaser.caches.claims, wanted(json!({})));
        *scene.server.claim.lock() = exists.then(|| wanted(json!({})));
        let other = wanted(json!({"spec": {"storageClassName": "slow"}}));
        let reviewed = scene
            .releaser
            .reservations
            .review(&review(&other, false))
            .await;
        assert_eq!(reviewed, Ok(Answer::Allow), "{exists}");
        assert_eq!(patches(&scene).len(), usize::from(!exists), "{exists}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_smallest_volume_comes_first_and_a_lost_one_is_skipped() {
    let scene = Scene::new(Options::default());
    *scene.server.namespace.lock() = Some("n");
    for (name, size) in [("a", "4Gi"), ("b", "2Gi"), ("c", "3Gi"), ("d", "512Mi")] {
        let mut changes = parked("n");
        changes["metadata"]["name"] = json!(name);
        changes["metadata"]["uid"] = json!(name);
        changes["spec"]["claimRef"]["name"] = json!(format!("parked-{name}"));
        changes["spec"]["capacity"]["storage"] = json!(size);
        scene.watch_volume("5", changes);
    }
    scene.server.answers.lock().push_back((409, "conflict"));
    let request = review(&wanted(json!({})), false);
    let reviewed = scene.releaser.reservations.review(&request);
    assert_eq!(reviewed.await, Ok(Answer::Allow));
    let tested: Vec<_> = patches(&scene)
        .iter()
        .map(|patch| patch[0]["value"].clone())
        .collect();
    assert_eq!(tested, ["b", "c"]);
}

/// A volume that is reserved for a claim of an earlier namespace of that name is parked before the
/// claim is stored.
#[tokio::test(start_paused = true)]
async fn no_claim_of_a_recreated_namespace_gets_a_reserved_volume() {
    for (live, answer, patched, denied) in [
        (Some("m"), None, true, false),
        (Some("m"), Some((409, "conflict")), true, true),
        // The volume does not exist any more, so no claim gets its data.
        (Some("m"), Some((404, "not found")), true, false),
        (None, None, false, true),
        (Some("n"), None, false, false),
    ] {
        let scene = Scene::new(Options::default());
        *scene.server.namespace.lock() = live;
        scene.watch_volume("5", reserved("n", None));
        scene.server.answers.lock().extend(answer);
        let review = review(&wanted(json!({})), false);
        let found = scene
            .releaser
            .reservations
            .review(&review)
            .await
            .expect("an answer");
        assert_eq!(
            matches!(found, Answer::Deny { .. }),
            denied,
            "{live:?} {found:?}"
        );
        let sent = patches(&scene);
        assert_eq!(sent.len(), usize::from(patched), "{live:?}");
        for patch in sent {
            assert_eq!(reference(&patch)["name"], json!("parked-pv-uid"));
        }
    }
}

/// A claim that admission missed gets a parked volume, unless a provisioner or the scheduler
/// already serves it.
#[tokio::test(start_paused = true)]
async fn a_waiting_claim_gets_a_parked_volume() {
    let selected =
        json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "a"}}});
    let named = |volume: &str| json!({"spec": {"volumeName": volume}});
    for (row, live, uid, changes, expected) in [
        ("it waits", "n", "2", json!({}), true),
        ("it names the volume", "n", "2", named("pv"), true),
        ("it names another volume", "n", "2", named("other"), false),
        ("replaced meanwhile", "n", "3", json!({}), false),
        ("the scheduler has begun", "n", "2", selected, false),
        ("a recreated namespace", "m", "2", json!({}), false),
    ] {
        let scene = Scene::new(Options::default());
        *scene.server.namespace.lock() = Some(live);
        scene.watch_volume("5", parked("n"));
        let known = json!({"spec": {"volumeName": changes["spec"]["volumeName"]}});
        scene.deliver(&scene.releaser.caches.claims, wanted(known));
        assert!(scene.woken().await, "{row}");
        let stored = changed(wanted(json!({"metadata": {"uid": uid}})), changes);
        *scene.server.claim.lock() = Some(stored);
        let name = ObjectName::new("ns", "data");
        assert!(scene.releaser.candidates().contains(&name));
        scene.releaser.reconcile(&name).await.expect("settled");
        assert_eq!(patches(&scene).len(), usize::from(expected), "{row}");
    }
}

/// An administrator who reserves a volume of a deleted namespace, and leaves the record, learns why
/// the reservation ends.
#[tokio::test(start_paused = true)]
async fn who_reserves_a_volume_of_a_deleted_namespace_learns_how() {
    let at = "1970-01-01T00:01:40Z";
    for (row, reserved_at, live, reasons) in [
        ("by an administrator", None, None, vec!["Parked"]),
        (
            "by an administrator, recreated",
            None,
            Some("m"),
            vec!["Parked"],
        ),
        ("it still exists", None, Some("n"), vec![]),
        ("by Volume Warden", Some(at), None, vec![]),
    ] {
        let scene = Scene::new(Options::default());
        *scene.server.namespace.lock() = live;
        scene.watch_volume("5", reserved("n", reserved_at));
        assert!(scene.reconcile().await, "{row}");
        assert_eq!(
            patches(&scene).len(),
            usize::from(live != Some("n")),
            "{row}"
        );
        assert_eq!(scene.server.reasons(), reasons, "{row}");
    }
}

/// A reserved volume that is parked no longer names a tenant's claim in its `claimRef`.
#[test]
fn a_parked_volume_names_no_claim_of_a_tenant() {
    let operations = park(&volume(reserved("n", None)), &Options::default());
    let mut after = wire(reserved("n", None));
    json_patch::patch(&mut after, &operations).expect("applies");
    let after = read(after);
    assert!(after.is_parked("volume-warden") && after.reserved_for().is_none());
}
