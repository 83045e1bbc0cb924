//! Tests of how the patches of pv-releaser change a volume.

use super::{
    patch::{association, release},
    *,
};
use crate::objects::managed_by::LEGACY_LABEL;
use json_patch::PatchOperation;

fn patched(before: Value, operations: &[PatchOperation]) -> Value {
    let mut after = before;
    json_patch::patch(&mut after, operations).expect("applies");
    after
}

/// The volume after its release.
fn freed(changes: Value, options: &Options) -> Value {
    let operations = release(&volume(changes.clone()), Scope::Cluster, options);
    patched(wire(changes), &operations)
}

/// Test cases PR-07 and PR-23 of the specification.
#[test]
fn association_adds_one_label_and_nothing_else() {
    for labels in [json!(null), json!({}), json!({"app": "x"})] {
        let mut before = wire(json!({}));
        before["metadata"]["labels"] = labels.clone();
        let operations = association(&read(before.clone()), &cluster().id);
        let mut expected = before.clone();
        expected["metadata"]["labels"][RELEASER_LABEL] = json!(*US);
        assert_eq!(patched(before, &operations), expected, "{labels}");
    }
}

/// Test cases PR-09, PR-22 and PR-23 of the specification.
#[test]
fn a_release_removes_only_what_binds_the_volume() {
    let binder = "pv.kubernetes.io/bound-by-controller";
    let binders_mark = json!({"metadata": {"annotations": {binder: null}}});
    let tied = json!({"metadata": {"labels": {RELEASER_LABEL: null}}, "spec": {"claimRef": null}});
    let expected = changed(wire(binders_mark.clone()), tied);
    for changes in [json!({}), binders_mark] {
        assert_eq!(freed(changes, &cluster()), expected);
    }
}

/// PR-19: a volume without a label is released without removing a label.
#[test]
fn a_volume_managed_by_its_class_keeps_its_labels() {
    let unlabelled = json!({"metadata": {"labels": {RELEASER_LABEL: null}}});
    let options = Options {
        associate_by_storage_class: true,
        ..cluster()
    };
    let after = freed(unlabelled, &options);
    assert_eq!(after["metadata"]["labels"], json!({"app": "x"}));
    assert_eq!(after["spec"]["claimRef"], json!(null));
}

/// Test case PR-25 of the specification.
#[test]
fn the_legacy_label_is_removed_where_it_counts() {
    let legacy = label(LEGACY_LABEL, &US);
    let all = freed(legacy.clone(), &cluster());
    assert_eq!(all["metadata"]["labels"], json!({"app": "x"}));
    let ignoring = Options {
        legacy_label: false,
        ..cluster()
    };
    let kept = json!({"app": "x", LEGACY_LABEL: *US});
    assert_eq!(freed(legacy, &ignoring)["metadata"]["labels"], kept);
}

/// Test case PR-10 of the specification.
#[test]
fn manual_labels_are_kept() {
    let manual = Options {
        disable_automatic_association: true,
        ..cluster()
    };
    let after = freed(label(LEGACY_LABEL, &US), &manual);
    let labels = json!({RELEASER_LABEL: *US, LEGACY_LABEL: *US, "app": "x"});
    assert_eq!(after["metadata"]["labels"], labels);
    assert_eq!(after["spec"]["claimRef"], json!(null));
}

/// Test case PR-30 of the specification.
#[test]
fn a_soft_release_keeps_the_name_of_the_claim() {
    let soft = Options {
        release_mode: Mode::Soft,
        ..cluster()
    };
    let name = json!({"kind": "PersistentVolumeClaim", "namespace": "ns", "name": "data"});
    let unversioned = json!({"spec": {"claimRef": {"resourceVersion": null}}});
    for changes in [json!({}), unversioned] {
        let after = freed(changes, &soft);
        assert_eq!(after["spec"]["claimRef"], name);
        assert_eq!(after["metadata"]["labels"], json!({"app": "x"}));
        let again = decided(&read(after), &NOTHING, &soft);
        assert_eq!(
            again,
            Decision::Leave(LeaveReason::Unlabeled),
            "never twice"
        );
    }
}
