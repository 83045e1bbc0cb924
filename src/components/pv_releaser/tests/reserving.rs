//! Tests of when the reservation of a volume ends.

use super::{
    parking::{parked, patches, reference, reserved, review, wanted},
    scene::{Scene, volume as volume_at},
    *,
};
use crate::{
    admission::Answer,
    cluster::{Reconcile, Requeue},
    objects::{
        ObjectName,
        fit::{ClaimRequirements, ClaimRequirementsWire},
        reuse::CLAIM_NAMESPACE,
    },
};
use k8s_openapi::jiff::SignedDuration;
use std::time::Duration;

#[test]
fn a_reservation_lasts_as_long_as_it_serves_a_claim() {
    let requirements = |changes| -> ClaimRequirements {
        let wire: ClaimRequirementsWire = serde_json::from_value(wanted(changes)).expect("a claim");
        wire.into()
    };
    let (pending, bound) = (
        requirements(json!({})),
        requirements(json!({"spec": {"volumeName": "pv"}})),
    );
    let elsewhere = requirements(json!({"spec": {"volumeName": "other"}}));
    let recorded = volume(reserved("n", None));
    let recorded = recorded.record().expect("a record").claim_uid.to_string();
    let twice = json!({"metadata": {"uid": recorded}, "spec": {"volumeName": "other"}});
    let twice = requirements(twice);
    let large = requirements(json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}}));
    let expanded = json!({"resources": {"requests": {"storage": "3Gi"}}, "volumeName": "pv"});
    let expanded = requirements(json!({ "spec": expanded }));
    let volume = volume(reserved("n", None));
    let decided = |namespace, age: Option<i64>, claim| {
        decide_reservation(&Reservation {
            name: &ObjectName::cluster_scoped("pv"),
            volume: &volume,
            record: volume.record().expect("a record"),
            namespace,
            age: age.map(SignedDuration::from_secs),
            claim,
        })
    };
    let later = |seconds| Verdict::Later(Duration::from_secs(seconds));
    let (same, recreated) = (Some("n"), Some("m"));
    for (row, namespace, age, claim, expected) in [
        (
            "the claim exists",
            same,
            Some(60),
            Some(&pending),
            Verdict::Keep,
        ),
        ("bound to it", same, Some(60), Some(&bound), Verdict::Keep),
        ("not stored yet", same, Some(10), None, later(50)),
        ("never stored", same, Some(60), None, Verdict::Park),
        (
            "bound elsewhere",
            same,
            Some(60),
            Some(&elsewhere),
            Verdict::Park,
        ),
        ("it fits", same, Some(1), Some(&pending), later(59)),
        ("too large", same, Some(1), Some(&large), Verdict::Park),
        (
            "too large, later",
            same,
            Some(60),
            Some(&large),
            Verdict::Park,
        ),
        (
            "too large, not reserved by Volume Warden",
            same,
            None,
            Some(&large),
            Verdict::Keep,
        ),
        (
            "bound to it and expanded",
            same,
            Some(60),
            Some(&expanded),
            Verdict::Keep,
        ),
        (
            "clocks that differ a little",
            same,
            Some(-10),
            None,
            later(60),
        ),
        ("a time in the future", same, Some(-60), None, Verdict::Park),
        (
            "a time in the future, used",
            same,
            Some(-60),
            Some(&pending),
            Verdict::Keep,
        ),
        (
            "recreated",
            recreated,
            Some(1),
            Some(&pending),
            Verdict::Park,
        ),
        ("deleted", None, Some(1), Some(&pending), Verdict::Park),
        ("soft", same, None, None, Verdict::Keep),
        ("provisioned twice", same, None, Some(&twice), Verdict::Park),
        (
            "of an administrator, the claim is bound elsewhere",
            same,
            None,
            Some(&elsewhere),
            Verdict::Keep,
        ),
        ("soft, recreated", recreated, None, None, Verdict::Park),
    ] {
        assert_eq!(decided(namespace, age, claim), expected, "{row}");
    }
}

/// The volume may be reserved for an earlier claim of this name that another webhook or a quota has
/// refused. kube-controller-manager compares only the size, the volume mode and the
/// VolumeAttributesClass of a reserved volume.
#[tokio::test(start_paused = true)]
async fn a_claim_gets_no_volume_that_is_reserved_for_a_claim_with_another_spec() {
    let at = Some("1970-01-01T00:00:00Z");
    let source =
        json!({"kind": "VolumeSnapshot", "name": "s", "apiGroup": "snapshot.storage.k8s.io"});
    let source = json!({"spec": {"dataSource": source}});
    let large = json!({"spec": {"resources": {"requests": {"storage": "5Gi"}}}});
    let conflict = Some((409, "conflict"));
    let (parked, offered) = (("pv-uid", "parked-pv-uid"), ("large", "data"));
    for (row, changes, reserved_at, answer, expected, denied) in [
        ("it fits", json!({}), at, None, vec![], false),
        (
            "with a data source",
            source.clone(),
            at,
            None,
            vec![parked],
            false,
        ),
        (
            "too large",
            large.clone(),
            at,
            None,
            vec![parked, offered],
            false,
        ),
        (
            "reserved by an administrator",
            large,
            None,
            None,
            vec![],
            false,
        ),
        ("the write fails", source, at, conflict, vec![parked], true),
    ] {
        let scene = Scene::new(Options::default());
        *scene.server.namespace.lock() = Some("n");
        scene.watch_volume("5", reserved("n", reserved_at));
        scene.watch_volume(
            "5",
            changed(
                self::parked("n"),
                json!({
                    "metadata": {"name": "large", "uid": "large"},
                    "spec": {"claimRef": {"name": "parked-large"}, "capacity": {"storage": "10Gi"}},
                }),
            ),
        );
        scene.server.answers.lock().extend(answer);
        let request = review(&wanted(changes), false);
        let found = scene.releaser.reservations.review(&request).await;
        let found = found.expect("an answer");
        assert_eq!(
            matches!(found, Answer::Deny { .. }),
            denied,
            "{row}: {found:?}"
        );
        let sent = patches(&scene);
        let written = sent
            .iter()
            .map(|patch| (patch[0]["value"].clone(), reference(patch)["name"].clone()));
        let expected = expected
            .iter()
            .map(|(uid, claim)| (json!(uid), json!(claim)));
        assert_eq!(Vec::from_iter(written), Vec::from_iter(expected), "{row}");
    }
}

/// As above, for a claim that admission missed.
#[tokio::test(start_paused = true)]
async fn a_volume_that_does_not_fit_the_stored_claim_is_parked_at_once() {
    let at = Some("1970-01-01T00:00:00Z");
    let large = || json!({"spec": {"resources": {"requests": {"storage": "5Gi"}}}});
    let bound = changed(large(), json!({"spec": {"volumeName": "pv"}}));
    for (row, changes, reserved_at, expected) in [
        ("it fits", json!({}), at, false),
        ("too large", large(), at, true),
        ("bound and expanded since", bound, at, false),
        ("reserved by an administrator", large(), None, false),
    ] {
        let scene = Scene::new(Options::default());
        *scene.server.namespace.lock() = Some("n");
        scene.watch_volume("5", reserved("n", reserved_at));
        let claim = wanted(changes);
        scene.deliver(&scene.releaser.caches.claims, claim.clone());
        assert!(scene.woken().await, "{row}");
        *scene.server.claim.lock() = Some(claim);
        assert!(scene.reconcile().await, "{row}");
        assert_eq!(patches(&scene).len(), usize::from(expected), "{row}");
    }
}

/// A later namespace of the name may have a claim of the name, which would get the data.
#[tokio::test(start_paused = true)]
async fn a_reservation_ends_when_the_deletion_of_its_namespace_begins() {
    for (namespace, parked) in [("n", 0), ("n terminating", 1)] {
        let scene = Scene::new(Options::default());
        *scene.server.namespace.lock() = Some(namespace);
        scene.watch_volume("5", reserved("n", None));
        let name = ObjectName::cluster_scoped("pv");
        scene.releaser.reconcile(&name).await.expect("settled");
        assert_eq!(patches(&scene).len(), parked, "{namespace}");
    }
}

/// Otherwise the volume would be parked and reserved in turn, without end.
#[tokio::test(start_paused = true)]
async fn no_volume_is_reserved_for_a_claim_of_a_namespace_that_is_being_deleted() {
    for (namespace, reserved) in [("n", 1), ("n terminating", 0)] {
        let scene = Scene::new(Options::default());
        *scene.server.namespace.lock() = Some(namespace);
        scene.watch_volume("5", parked("n"));
        let claim = wanted(json!({"metadata": {"uid": "2"}}));
        scene.deliver(&scene.releaser.caches.claims, claim.clone());
        *scene.server.claim.lock() = Some(claim);
        let name = ObjectName::new("ns", "data");
        scene
            .releaser
            .reservations
            .reserve_for_claim(&name)
            .await
            .expect("settled");
        assert_eq!(patches(&scene).len(), reserved, "{namespace}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_is_not_used_is_parked_after_a_minute() {
    let scene = Scene::new(Options::default());
    *scene.server.namespace.lock() = Some("n");
    scene.watch_volume("5", reserved("n", Some("1970-01-01T00:01:40Z")));
    let name = ObjectName::cluster_scoped("pv");
    *scene.server.now.lock() = Some(110);
    let later = scene.releaser.reconcile(&name).await.expect("settled");
    assert!(matches!(later, Requeue::After(delay, _) if delay == Duration::from_secs(50)));
    *scene.server.now.lock() = Some(161);
    assert!(scene.reconcile().await);
    let mut after = volume_at("5", reserved("n", Some("1970-01-01T00:01:40Z")));
    let patch: json_patch::Patch =
        serde_json::from_value(patches(&scene).remove(0)).expect("a patch");
    json_patch::patch(&mut after, &patch).expect("applies");
    assert_eq!(
        after["metadata"]["annotations"],
        json!({CLAIM_NAMESPACE: "ns/n/1"})
    );
    assert!(read(after).is_parked("volume-warden"));
}

/// The time of a reservation is that of the API server: any replica writes it, and the leader reads
/// it. If it cannot be read, no volume is reserved, and no reservation ends.
#[tokio::test(start_paused = true)]
async fn reservations_are_timed_by_the_clock_of_the_api_server() {
    let name = ObjectName::cluster_scoped("pv");
    for (now, written) in [(Some(100), Some("1970-01-01T00:01:40Z")), (None, None)] {
        let scene = Scene::new(Options::default());
        *scene.server.namespace.lock() = Some("n");
        *scene.server.now.lock() = now;
        scene.watch_volume("5", parked("n"));
        let request = review(&wanted(json!({})), false);
        let found = scene.releaser.reservations.review(&request).await;
        assert_eq!(found, Ok(Answer::Allow), "{now:?}");
        let sent = patches(&scene);
        let operations = sent
            .iter()
            .flat_map(|patch| patch.as_array().into_iter().flatten());
        let mut times =
            operations.filter_map(|each| each["value"].as_str().filter(|text| text.ends_with('Z')));
        assert_eq!(times.next(), written, "{now:?}");
    }
    let scene = Scene::new(Options::default());
    *scene.server.namespace.lock() = Some("n");
    *scene.server.now.lock() = None;
    scene.watch_volume("5", reserved("n", Some("1970-01-01T00:00:00Z")));
    assert!(scene.releaser.reconcile(&name).await.is_err());
    assert_eq!(patches(&scene).len(), 0);
}

/// A cluster whose system components cannot create claims may not recover.
#[tokio::test(start_paused = true)]
async fn no_claim_of_an_exempt_namespace_is_refused() {
    for (namespace, refusal) in [
        (
            "ns",
            Some("it may hold data of a deleted namespace of the same name"),
        ),
        ("kube-system", None),
    ] {
        let scene = Scene::new(Options::default());
        let mut changes = reserved("n", None);
        changes["metadata"]["annotations"][CLAIM_NAMESPACE] = json!(format!("{namespace}/n/1"));
        changes["spec"]["claimRef"]["namespace"] = json!(namespace);
        scene.watch_volume("5", changes);
        let name = ObjectName::new(namespace, "data");
        assert_eq!(scene.releaser.caches.reserved_for(&name).len(), 1);
        // The API server has no namespace, so its uid cannot be compared with the recorded one.
        let claim = wanted(json!({"metadata": {"namespace": namespace}}));
        let request = review(&claim, false);
        let reviewed = scene.releaser.reservations.review(&request).await;
        match (reviewed, refusal) {
            (Ok(Answer::Deny { message, .. }), Some(why)) => {
                assert!(message.contains(why), "{message}");
            }
            (reviewed, refusal) => {
                assert_eq!((reviewed, refusal), (Ok(Answer::Allow), None), "{name}");
            }
        }
    }
}
