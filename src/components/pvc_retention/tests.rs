//! Tests of the rule of pvc-retention: the rows of the table tests in Kubernetes, numbered in their
//! order there, and the cases missing there.
//!
//! A reference is written as its owner, and how it differs from one that Volume Warden writes:
//! `set` is the set, `pod` the pod, `cm` a ConfigMap, `peer` another set. `~` has no controller
//! flag, `-` has `controller: false`, `+` has `controller: true` where that is not usual, `?` has
//! another uid, `!` an empty one, `@` another apiVersion.

use super::{
    caches::mounts,
    fate::Fate,
    ownership::{Owner, Owners},
    rule::{MarkerChange, PodSlot, Step, Update, View, decide},
};
use crate::objects::{
    Claim, CompactText, StatefulSet,
    claim::ClaimWire,
    pod::PodWire,
    rare_fields::RareFields,
    stateful_set::{Policy, Retention, StatefulSetWire},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};
use std::sync::LazyLock;

static SET_UID: LazyLock<CompactText> = LazyLock::new(|| "set-uid".into());
static POD_UID: LazyLock<CompactText> = LazyLock::new(|| "pod-uid".into());
static FOREIGN_UID: LazyLock<CompactText> = LazyLock::new(|| "foreign-uid".into());
static OWNERS: LazyLock<Owners<'_>> = LazyLock::new(|| Owners {
    set: *SET,
    pod: *POD,
});
static SET: LazyLock<Owner<'_>> = LazyLock::new(|| Owner::set("web", &SET_UID));
static POD: LazyLock<Owner<'_>> = LazyLock::new(|| Owner::pod("web-3", Some(&POD_UID)));
static MEMBER: LazyLock<PodSlot<'_>> = LazyLock::new(|| PodSlot::Owned(&POD_UID));
static FOREIGN: LazyLock<PodSlot<'_>> = LazyLock::new(|| PodSlot::NotOwned(&FOREIGN_UID));

/// A retention policy from two letters, as the table rows have them: first `whenScaled`, then
/// `whenDeleted`; `r` is Retain, `d` is Delete.
fn policy(letters: &str) -> Retention {
    let policy = |letter| match letter {
        Some('d') => Policy::Delete,
        _ => Policy::Retain,
    };
    let mut letters = letters.chars();
    Retention {
        when_scaled: policy(letters.next()),
        when_deleted: policy(letters.next()),
    }
}

fn reference(text: &str) -> OwnerReference {
    let whose = text.trim_end_matches(['~', '-', '+', '?', '!', '@']);
    let marks = &text[whose.len()..];
    let (api_version, kind, name, uid, controls) = match whose {
        "set" => ("apps/v1", "StatefulSet", "web", "set-uid", true),
        "pod" => ("v1", "Pod", "web-3", "pod-uid", true),
        "cm" => ("v1", "ConfigMap", "cm", "cm-uid", false),
        "peer" => ("apps/v1", "StatefulSet", "peer", "peer-uid", true),
        "namesake" => ("v1", "ConfigMap", "web", "namesake-uid", false),
        other => unreachable!("no such owner: {other}"),
    };
    let controller = controls.then_some(true);
    OwnerReference {
        api_version: if marks.contains('@') {
            "apps/v1beta1"
        } else {
            api_version
        }
        .to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: if marks.contains('?') {
            "earlier-uid".to_owned()
        } else if marks.contains('!') {
            String::new()
        } else {
            uid.to_owned()
        },
        controller: if marks.contains('~') {
            None
        } else if marks.contains('-') {
            Some(false)
        } else if marks.contains('+') {
            Some(true)
        } else {
            controller
        },
        block_owner_deletion: controller.map(|_| kind != "Pod"),
    }
}

fn references(texts: &str) -> Vec<OwnerReference> {
    texts.split_whitespace().map(reference).collect()
}

/// The owner references that the rule requires for a claim with the references `before`, as texts.
fn right(letters: &str, in_range: bool, before: &str) -> Vec<OwnerReference> {
    OWNERS.desired_references(policy(letters), in_range, &references(before))
}

fn set() -> StatefulSet {
    let wire = json!({"metadata": {"name": "web", "uid": "set-uid"}, "spec": {"replicas": 3}});
    serde_json::from_value::<StatefulSetWire>(wire)
        .expect("a set")
        .into()
}

fn claim(owners: &str, changes: Value) -> Claim {
    let mut wire = json!({"metadata": {"name": "data-web-3", "uid": "c", "ownerReferences": references(owners)}});
    json_patch::merge(&mut wire, &changes);
    serde_json::from_value::<ClaimWire>(wire)
        .expect("a claim")
        .into()
}

fn marked(uid: &str) -> Value {
    json!({"metadata": {"annotations": {"volume-warden.dev/scaled-with": uid}}})
}

struct Case {
    letters: &'static str,
    in_range: bool,
    pod: PodSlot<'static>,
    claim: Claim,
}

impl Case {
    fn decided(&self) -> (Fate, Step) {
        let set = set();
        let ordinal = if self.in_range { 1 } else { 3 };
        let verdict = decide(&View {
            claim: &self.claim,
            set_name: "web",
            set: &set,
            pod_name: "web-3",
            retention: policy(self.letters),
            ordinal,
            place: self.pod,
        });
        (verdict.fate, verdict.step)
    }
}

/// The update of a claim with these owners and without the marker while its pod exists; none if the
/// claim is up to date.
fn written(letters: &'static str, in_range: bool, owners: &str) -> Option<Vec<OwnerReference>> {
    let changes = if in_range {
        marked("set-uid")
    } else {
        json!({})
    };
    let changes = if letters.starts_with('d') {
        changes
    } else {
        json!({})
    };
    let claim = claim(owners, changes);
    match (Case {
        letters,
        in_range,
        pod: *MEMBER,
        claim,
    })
    .decided()
    .1
    {
        Step::Leave => None,
        Step::Update(update) => Some(update.owners),
        Step::Delete => unreachable!("its pod is there"),
    }
}

/// A claim may have tens of thousands of owner references.
#[test]
fn the_removals_are_the_owners_that_stay() {
    for (before, after, expected) in [
        ("", "set", ""),
        ("set", "", ""),
        ("cm peer set", "cm set", "cm set"),
        ("cm set peer", "cm peer pod", "cm peer"),
        ("cm cm peer", "cm cm", "cm cm"),
        ("pod", "set", ""),
    ] {
        let update = Update {
            owners: references(after),
            mark: MarkerChange::Leave,
        };
        let removals = update.removals(&claim(before, json!({})));
        assert_eq!(removals.owners, references(expected), "{before} to {after}");
    }
}

/// A pod that is deleted in the foreground would wait for its claim, and the claim for the pod.
#[test]
fn only_a_stateful_set_waits_for_its_claims() {
    let blocks = |letters, in_range| right(letters, in_range, "")[0].block_owner_deletion;
    assert_eq!(blocks("rd", true), Some(true));
    assert_eq!(blocks("dd", false), Some(false));
}

fn leaves(letters: &'static str, in_range: bool, owners: &str) -> bool {
    written(letters, in_range, owners).is_none()
}

/// Test cases STS-15, 16, 17, 19, 28, 30 of the specification.
#[test]
fn a_claim_is_updated_to_its_policy() {
    assert!(leaves("rr", true, ""), "STS-15");
    assert_eq!(
        written("rd", true, ""),
        Some(references("set")),
        "STS-16, 17, 30"
    );
    assert!(leaves("rd", true, "cm+"), "STS-19");
    assert_eq!(written("rr", true, "set"), Some(references("")), "STS-28");
}

/// STS-20..27: a claim that Kubernetes' own controller calls stale is left to the garbage
/// collector. A missing claim is not stale.
#[test]
fn claims_of_another_pod_are_stale() {
    let unborn = Owner { uid: None, ..*POD };
    for (pod, owners, stale, row) in [
        (*POD, "", false, "STS-20, 21, 22"),
        (*POD, "pod", false, "STS-23"),
        (*POD, "pod?", true, "STS-24, 25"),
        (*POD, "cm pod?", true, "STS-26"),
        (unborn, "pod", true, "STS-27"),
    ] {
        assert_eq!(pod.is_stale_in(&references(owners)), stale, "{row}");
    }
}

/// Test cases STS-57..60 of the specification.
#[test]
fn an_object_is_named_by_kind_and_name() {
    assert!(
        SET.is_named_by(&reference("set")) && SET.is_named_by(&reference("set?")),
        "STS-57, 58"
    );
    assert!(!SET.is_named_by(&reference("peer")), "STS-59");
    assert!(!SET.is_named_by(&reference("set@")), "STS-60");
}

/// STS-61..66: of eight combinations of owner references, exactly one is up to date.
#[test]
fn exactly_one_combination_is_up_to_date() {
    for (letters, in_range, right, row) in [
        ("rr", true, "", "STS-61"),
        ("rr", false, "", "STS-61"),
        ("rd", true, "set", "STS-62"),
        ("rd", false, "set", "STS-62"),
        ("dr", false, "pod", "STS-63"),
        ("dr", true, "", "STS-64"),
        ("dd", false, "pod", "STS-65"),
        ("dd", true, "set", "STS-66"),
    ] {
        for own in ["", "set", "pod", "set pod"] {
            for foreign in ["", "cm namesake"] {
                let owners = format!("{own} {foreign}");
                assert_eq!(
                    leaves(letters, in_range, &owners),
                    own == right,
                    "{row} {owners}"
                );
            }
        }
    }
}

/// Test cases STS-67..74 of the specification.
#[test]
fn unusual_references_are_recognized() {
    for (letters, in_range, owners, up_to_date, row) in [
        ("dd", false, "pod", true, "STS-67"),
        ("dd", false, "pod~", false, "STS-68"),
        ("dd", false, "pod?", true, "STS-69"),
        ("dd", false, "pod cm+", false, "STS-70"),
        ("rd", true, "set", true, "STS-71"),
        ("rd", true, "set@~", false, "STS-72"),
        ("rd", true, "set?", true, "STS-73"),
        ("rd", true, "set peer", false, "STS-74"),
    ] {
        assert_eq!(leaves(letters, in_range, owners), up_to_date, "{row}");
    }
}

/// STS-72 and observation E4: a reference that Kubernetes' own controller writes again and again is
/// repaired once.
#[test]
fn a_reference_with_another_api_version_is_repaired() {
    for owners in ["set@", "set@~", "set@ set"] {
        let after = written("rd", true, owners);
        assert_eq!(after, Some(references("set")), "{owners}");
    }
    assert_eq!(written("rr", true, "set@"), Some(references("")));
}

/// STS-75..80: every combination of references is changed to the one of the table, with references
/// to other objects first, in their order.
#[test]
fn every_combination_is_repaired() {
    for (letters, in_range, own_after, row) in [
        ("rr", true, "", "STS-75"),
        ("rd", true, "set", "STS-76"),
        ("dr", true, "", "STS-77"),
        ("dr", false, "pod", "STS-78"),
        ("dd", true, "set", "STS-79"),
        ("dd", false, "pod", "STS-80"),
    ] {
        for own in ["", "set", "pod", "set pod"] {
            for foreign in ["", "cm namesake"] {
                let after = right(letters, in_range, &format!("{foreign} {own}"));
                assert_eq!(
                    after,
                    references(&format!("{foreign} {own_after}")),
                    "{row} {own}"
                );
            }
        }
    }
}

/// Test cases STS-81..87 of the specification.
#[test]
fn foreign_references_are_kept_and_own_ones_repaired() {
    for (letters, in_range, before, after, row) in [
        ("dd", false, "pod set cm+", "cm+", "STS-81"),
        ("dd", true, "set cm", "set cm", "STS-82"),
        ("rd", true, "set~", "set", "STS-83"),
        ("rd", true, "namesake", "namesake set", "STS-84"),
        ("rd", true, "", "set", "STS-85"),
        ("rd", true, "set!", "", "STS-86"),
        ("rd", true, "set!~", "", "STS-87"),
    ] {
        assert_eq!(right(letters, in_range, before), references(after), "{row}");
    }
}

/// Test case STS-88 of the specification.
#[test]
fn a_uid_identifies_an_object() {
    for (owner, meant) in [
        ("set", true),
        ("set~", true),
        ("set@-", true),
        ("set?", false),
        ("peer", false),
    ] {
        assert_eq!(SET.matches_uid(&reference(owner)), meant, "{owner}");
    }
    let absent = Owner { uid: None, ..*SET };
    assert!(!absent.matches_uid(&reference("set!")));
}

/// Test cases STS-89..99 of the specification.
#[test]
fn another_controller_is_distinguished_from_other_owners() {
    let rows = [
        ("cm+", true),
        ("cm-", false),
        ("cm~", false),
        ("peer", true),
        ("peer", true),
        ("set", false),
        ("set?", true),
        ("pod", false),
        ("pod?", true),
        ("set cm+", true),
        ("set cm", false),
    ];
    for (row, (owners, expected)) in rows.into_iter().enumerate() {
        let contested =
            |letters| OWNERS.face_another_controller(policy(letters), &references(owners));
        for letters in ["rd", "dr", "dd"] {
            assert_eq!(contested(letters), expected, "STS-{} {letters}", row + 89);
        }
        assert!(
            !contested("rr"),
            "STS-{}: ignored where everything is retained",
            row + 89
        );
    }
}

/// STS-100..109: a reference to the set or the pod must be a controller, under every policy.
#[test]
fn own_references_are_controllers() {
    for (row, (letters, in_range, owners, repaired)) in [
        ("dd", false, "set pod", "pod"),
        ("dd", false, "set pod~", "pod"),
        ("rd", true, "pod set~", "set"),
        ("rd", true, "set", "set"),
        ("dr", false, "pod", "pod"),
        ("rr", true, "", ""),
        ("rd", true, "set~", "set"),
        ("rd", true, "set-", "set"),
        ("dr", false, "pod~", "pod"),
        ("rd", true, "set cm~", "set cm~"),
    ]
    .into_iter()
    .enumerate()
    {
        let after = right(letters, in_range, owners);
        assert_eq!(after, references(repaired), "STS-{}", row + 100);
    }
}

/// Test cases STS-110..112 of the specification.
#[test]
fn a_reference_to_an_earlier_incarnation_is_stale() {
    for (owners, stale) in [
        ("set", false),
        ("set?", true),
        ("peer", false),
        ("cm set?", true),
    ] {
        assert_eq!(SET.is_stale_in(&references(owners)), stale, "{owners}");
    }
}

/// STS-114: a pod decides about a claim only if it belongs to the StatefulSet and mounts the claim.
#[test]
fn a_pod_that_mounts_the_claim_is_known() {
    let pod = |owner: &str, volumes: Value| {
        let wire = json!({"metadata": {"name": "web-3", "ownerReferences": references(owner)}, "spec": {"volumes": volumes}});
        serde_json::from_value::<PodWire>(wire)
            .expect("a pod")
            .into()
    };
    let of = |claim: &str| json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    for (owner, volumes, expected) in [
        ("set", of("data-web-3"), true),
        ("set", json!([]), false),
        ("set", json!([{"name": "data", "emptyDir": {}}]), false),
        ("set", of("data-web-4"), false),
        ("peer", of("data-web-3"), false),
        ("set~", of("data-web-3"), false),
    ] {
        assert_eq!(
            mounts(&pod(owner, volumes.clone()), &set(), "data-web-3"),
            expected,
            "{owner} {volumes}"
        );
    }
}

/// The claims of ordinals without a pod follow `whenDeleted`. Claims that refer to a deleted pod
/// are left to the garbage collector.
#[test]
fn ordinals_without_a_pod_follow_the_policy_too() {
    for (letters, in_range, owners, fate, after) in [
        ("rr", true, "set", Fate::Retained, Some("")),
        ("rd", true, "", Fate::DeletedWithSet, Some("set")),
        ("rd", false, "", Fate::DeletedWithSet, Some("set")),
        ("rr", false, "set", Fate::Retained, Some("")),
        ("dd", false, "", Fate::ScaledDownUnmarked, Some("set")),
        ("dr", false, "set", Fate::ScaledDownUnmarked, Some("")),
        ("dr", false, "", Fate::ScaledDownUnmarked, None),
        ("dd", false, "pod", Fate::StaleOwner, None),
        ("rr", true, "pod", Fate::StaleOwner, None),
        ("dd", true, "pod", Fate::StaleOwner, None),
    ] {
        for pod in [PodSlot::Vacant, *FOREIGN] {
            let claim = claim(owners, marked("set-uid"));
            let claim = Claim {
                rare: RareFields {
                    scaled_with: claim
                        .rare
                        .scaled_with
                        .clone()
                        .filter(|_| letters.starts_with('d') && in_range),
                    ..(*claim.rare).clone()
                }
                .into(),
                ..claim
            };
            let (found, step) = Case {
                letters,
                in_range,
                pod,
                claim,
            }
            .decided();
            // A pod of the ordinal exists, so the ordinal does not count as scaled down.
            let is_occupied = fate == Fate::ScaledDownUnmarked && pod == *FOREIGN;
            let expected = match (is_occupied, after) {
                (false, _) => fate,
                (true, Some("set")) => Fate::DeletedWithSet,
                (true, _) => Fate::Retained,
            };
            assert_eq!(found, expected, "{letters} {in_range} {owners} {pod:?}");
            let update = after.map(|after| {
                Step::Update(Update {
                    owners: references(after),
                    mark: MarkerChange::Leave,
                })
            });
            assert_eq!(
                step,
                update.unwrap_or(Step::Leave),
                "{letters} {in_range} {owners}"
            );
        }
    }
}

/// The marker follows the policy, and does not change once the ordinal is out of range.
#[test]
fn the_marker_is_set_in_range_under_a_policy_that_deletes() {
    let unmarked = json!({});
    for (letters, in_range, owners, changes, mark) in [
        (
            "dr",
            true,
            "",
            unmarked.clone(),
            MarkerChange::Put("set-uid".into()),
        ),
        ("dr", true, "", marked("set-uid"), MarkerChange::Leave),
        (
            "dr",
            true,
            "",
            marked("earlier-uid"),
            MarkerChange::Put("set-uid".into()),
        ),
        ("dr", false, "pod", unmarked.clone(), MarkerChange::Leave),
        ("dr", false, "pod", marked("set-uid"), MarkerChange::Leave),
        ("rr", true, "", marked("set-uid"), MarkerChange::Remove),
        ("rd", false, "set", marked("set-uid"), MarkerChange::Remove),
        ("rd", true, "set", unmarked.clone(), MarkerChange::Leave),
        ("dd", true, "cm+", unmarked, MarkerChange::Leave),
        ("dd", true, "cm+", marked("set-uid"), MarkerChange::Remove),
    ] {
        let claim = claim(owners, changes.clone());
        let (_, step) = Case {
            letters,
            in_range,
            pod: *MEMBER,
            claim,
        }
        .decided();
        let found = match step {
            Step::Update(update) => update.mark,
            Step::Leave => MarkerChange::Leave,
            Step::Delete => unreachable!("its pod is there"),
        };
        assert_eq!(found, mark, "{letters} {in_range} {owners} {changes}");
    }
}

/// Volume Warden deletes a claim only if its pod was scaled down with `whenScaled: Delete` and is
/// deleted, and the claim has the marker of this StatefulSet and no other owner.
#[test]
fn only_a_marked_claim_without_pod_and_range_is_deleted() {
    let base = || ("dd", false, PodSlot::Vacant, "set", marked("set-uid"));
    let deleted = |(letters, in_range, pod, owners, changes): (
        &'static str,
        bool,
        PodSlot<'static>,
        &str,
        Value,
    )| {
        let claim = claim(owners, changes);
        Case {
            letters,
            in_range,
            pod,
            claim,
        }
        .decided()
        .1 == Step::Delete
    };
    assert!(deleted(base()));
    assert!(deleted((
        "dr",
        false,
        PodSlot::Vacant,
        "",
        marked("set-uid")
    )));
    for (what, case) in [
        (
            "retained when scaled",
            ("rd", false, PodSlot::Vacant, "set", marked("set-uid")),
        ),
        (
            "in range",
            ("dd", true, PodSlot::Vacant, "set", marked("set-uid")),
        ),
        (
            "its pod is there",
            ("dd", false, *MEMBER, "set", marked("set-uid")),
        ),
        (
            "a pod without the set exists",
            ("dd", false, *FOREIGN, "set", marked("set-uid")),
        ),
        ("no mark", ("dd", false, PodSlot::Vacant, "set", json!({}))),
        (
            "an earlier set's mark",
            ("dd", false, PodSlot::Vacant, "set", marked("earlier-uid")),
        ),
        (
            "another owner",
            ("dd", false, PodSlot::Vacant, "set cm", marked("set-uid")),
        ),
        (
            "another controller",
            ("dd", false, PodSlot::Vacant, "cm+", marked("set-uid")),
        ),
        (
            "an earlier set's",
            ("dd", false, PodSlot::Vacant, "set?", marked("set-uid")),
        ),
        (
            "the garbage collector is at it",
            ("dd", false, PodSlot::Vacant, "pod", marked("set-uid")),
        ),
    ] {
        assert!(!deleted(case), "{what}");
    }
}

/// A StatefulSet that is recreated does not adopt its old pod, which is being deleted.
#[test]
fn a_claim_that_is_kept_is_not_deleted_with_a_pod_of_an_earlier_set() {
    let decided = |letters, in_range, pod| {
        let claim = claim("pod", json!({}));
        Case {
            letters,
            in_range,
            pod,
            claim,
        }
        .decided()
    };
    let update = |owners, mark| {
        let owners = references(owners);
        Step::Update(Update { owners, mark })
    };
    let [old, other] = [PodSlot::Ending(&POD_UID), PodSlot::NotOwned(&POD_UID)];
    let kept = (
        Fate::DeletedWithSet,
        update("set", MarkerChange::Put("set-uid".into())),
    );
    assert_eq!(decided("dd", true, old), kept);
    assert_eq!(decided("dd", true, other), kept);
    for in_range in [true, false] {
        let retained = (Fate::Retained, update("", MarkerChange::Leave));
        assert_eq!(decided("rr", in_range, old), retained, "{in_range}");
    }
    for (letters, in_range, pod) in [
        ("dd", false, old),
        // Another controller may have created the pod.
        ("rr", false, other),
        ("rr", true, *FOREIGN),
    ] {
        let left = (Fate::StaleOwner, Step::Leave);
        assert_eq!(
            decided(letters, in_range, pod),
            left,
            "{letters} {in_range}"
        );
    }
}

#[test]
fn a_claim_that_is_being_deleted_is_left_alone() {
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    for (in_range, pod, fate) in [
        (true, PodSlot::Vacant, Fate::PodBlockedByClaim),
        (true, *MEMBER, Fate::Terminating),
        (false, PodSlot::Vacant, Fate::Terminating),
    ] {
        let claim = claim("set pod cm", deleting.clone());
        assert_eq!(
            Case {
                letters: "dd",
                in_range,
                pod,
                claim
            }
            .decided(),
            (fate, Step::Leave)
        );
    }
}
