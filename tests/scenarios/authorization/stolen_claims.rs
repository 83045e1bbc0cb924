//! Which writes of claims a stolen token of Volume Warden's service account permits.

use super::stolen_token::{StolenToken, claims_path, dry_run_delete, owner, patch};
use crate::support::{Space, bare, claim};
use anyhow::Result;
use http::Method;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const LABEL: &str = "dynamic-pvc-provisioner.kubernetes.io/managed-by";

fn condition(kind: &str) -> Value {
    json!({"status": {"conditions": [{"type": kind, "status": "True"}]}})
}

fn marked(mark: &str) -> Value {
    json!({"metadata": {"annotations": {format!("volume-warden.dev/{mark}"): "u"}}})
}

#[tokio::test]
async fn a_stolen_token_changes_no_claim_but_as_volume_warden_does() -> Result<()> {
    let space = Space::new(bare().await?, "stolen-claims").await?;
    let claims = claims_path(&space);
    let post = PostParams::default();
    let foreign =
        json!({"metadata": {"finalizers": ["example.com/hold"], "annotations": {"team": "a"}}});
    let protection = "kubernetes.io/pvc-protection";
    let finalizers = |list: &[&str]| json!({"metadata": {"finalizers": list}});
    let awaiting = |changes| {
        let mut claim = marked("awaiting-pod");
        claim["metadata"]["labels"] = json!({LABEL: "id"});
        json_patch::merge(&mut claim, &changes);
        claim
    };
    let mut owned = owner("ConfigMap", "absent");
    json_patch::merge(&mut owned, &foreign);
    for (name, changes) in [
        ("plain", foreign.clone()),
        ("data-web-0", foreign),
        ("marked", awaiting(json!({}))),
        ("unlabelled", marked("awaiting-pod")),
        ("data-web-1", marked("scaled-with")),
        (
            "provisioned",
            json!({"metadata": {"labels": {LABEL: "id"}}}),
        ),
        ("ending", finalizers(&[protection])),
        ("held", finalizers(&["example.com/hold", protection])),
        ("my-data", json!({})),
        ("a-b-c", json!({})),
        // The garbage collector deletes this claim, because its owner does not exist. The finalizer
        // example.com/hold keeps it until the end of the scenario.
        ("owned", owned),
    ] {
        space.claims.create(&post, &claim(name, changes)?).await?;
    }
    for name in ["ending", "held"] {
        space.claims.delete(name, &DeleteParams::default()).await?;
    }
    let resizing = Patch::Merge(condition("Resizing"));
    let merge = PatchParams::default();
    space
        .claims
        .patch_status("owned", &merge, &resizing)
        .await?;
    let path = |name: &str| format!("{claims}/{name}");
    let plain = path("plain");
    let token = StolenToken::new(&space).await?;
    let new = |changes| -> Result<Value> { Ok(json!(claim("new", changes)?)) };
    let pod = || json!({"metadata": {"labels": {LABEL: "id"}, "ownerReferences": owner("Pod", "p")["metadata"]["ownerReferences"]}});
    let two_marks = json!({"metadata": {"labels": {LABEL: "id"}, "annotations": {
        "volume-warden.dev/awaiting-pod": "t", "volume-warden.dev/scaled-with": "u"}}});
    let create = |changes| anyhow::Ok((Method::POST, claims.clone(), new(changes)?));
    let creating = |changes| create(awaiting(changes));
    let may_create = "may only create claims for pods";
    let may_bind = "may not create claims with spec.volumeName";
    let bound = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}});
    let may_own = "may only make the StatefulSet or the pod in the claim's name its owner";
    let only_refs = "may only change the references of claims to StatefulSets and pods";
    let only_finalizer = "may only add and remove the finalizer kubernetes.io/pvc-protection";
    let only_annotations = "may only change its own annotations";
    // Only the component pvc-expiry adds this annotation to the policy.
    let announced = json!({"metadata": {"annotations": {"volume-warden.dev/expires-at": "2026-01-01T00:00:00Z"}}});
    let only_unused = "may only change the condition Unused";
    let status = format!("{plain}/status");
    let may_copy = "may not create claims with spec.dataSource or spec.dataSourceRef";
    let source = json!({"kind": "PersistentVolumeClaim", "name": "other"});
    let populator = json!({"apiGroup": "example.com", "kind": "Populator", "name": "other"});
    let owners = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"},
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"},
    ]}});
    let with_label = |list: &[&str]| {
        let mut both = finalizers(list);
        both["metadata"]["labels"] = json!({"a": "b"});
        both
    };
    let mut refused = vec![
        // The claim stays, so what else is changed counts.
        (
            patch(&path("held"), with_label(&["example.com/hold"])),
            "may not change the spec or labels",
        ),
        (
            patch(&path("ending"), with_label(&[protection])),
            "may not change the spec or labels",
        ),
        (
            patch(&path("my-data"), with_label(&[])),
            "may not change the spec or labels",
        ),
        (
            patch(&plain, json!({"spec": {"volumeName": "other"}})),
            "may not change the spec",
        ),
        (patch(&status, condition("Resizing")), only_unused),
        (
            patch(
                &format!("{}/status", path("owned")),
                json!({"status": {"conditions": []}}),
            ),
            only_unused,
        ),
        (
            patch(&plain, json!({"metadata": {"labels": {"a": "b"}}})),
            "may not change the spec",
        ),
        (
            patch(
                &plain,
                json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}),
            ),
            only_annotations,
        ),
        (
            patch(&plain, json!({"metadata": {"annotations": {"team": "b"}}})),
            only_annotations,
        ),
        (
            patch(&plain, json!({"metadata": {"annotations": {"team": null}}})),
            only_annotations,
        ),
        (patch(&plain, announced), only_annotations),
        (
            patch(&plain, marked("awaiting-pod")),
            "may not mark an existing claim",
        ),
        (
            patch(&plain, marked("scaled-with")),
            "may only mark claims of StatefulSets",
        ),
        (
            patch(
                &plain,
                finalizers(&["example.com/hold", "example.com/never"]),
            ),
            only_finalizer,
        ),
        (patch(&plain, finalizers(&[protection])), only_finalizer),
        (patch(&plain, owner("ConfigMap", "c")), only_refs),
        (
            patch(&path("owned"), json!({"metadata": {"ownerReferences": []}})),
            only_refs,
        ),
        (patch(&plain, owner("Pod", "p")), may_own),
        (patch(&path("my-data"), owner("Pod", "data")), may_own),
        (patch(&path("a-b-c"), owner("StatefulSet", "b")), may_own),
        (
            patch(&path("data-web-0"), owner("StatefulSet", "other")),
            may_own,
        ),
        (patch(&path("data-web-0"), owner("Pod", "other-0")), may_own),
        (create(json!({}))?, may_create),
        (
            create(json!({"metadata": {"labels": {LABEL: "id"}}}))?,
            may_create,
        ),
        (create(two_marks)?, may_create),
        (creating(owner("ConfigMap", "c"))?, may_create),
        (creating(owners)?, may_create),
        (
            creating(json!({"spec": {"volumeName": "other"}}))?,
            may_bind,
        ),
        (creating(bound)?, may_bind),
        (
            creating(finalizers(&[protection, "example.com/never"]))?,
            "may not create claims with finalizers other than",
        ),
        (
            creating(json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}))?,
            "may not create claims with spec.selector",
        ),
        (creating(json!({"spec": {"dataSource": source}}))?, may_copy),
        (
            creating(json!({"spec": {"dataSourceRef": populator}}))?,
            may_copy,
        ),
        (
            (Method::DELETE, plain.clone(), dry_run_delete()),
            "may only delete claims that carry one of its markers",
        ),
        (
            (Method::DELETE, path("unlabelled"), dry_run_delete()),
            "may only delete claims that carry one of its markers",
        ),
    ];
    for (field, value) in [
        ("phase", json!("Lost")),
        ("accessModes", json!(["ReadOnlyMany"])),
        ("capacity", json!({"storage": "9Gi"})),
        ("allocatedResources", json!({"storage": "9Gi"})),
        (
            "allocatedResourceStatuses",
            json!({"storage": "ControllerResizeInProgress"}),
        ),
        ("currentVolumeAttributesClassName", json!("gold")),
        ("modifyVolumeStatus", json!({"status": "Pending"})),
    ] {
        let write = patch(&status, json!({"status": {field: value}}));
        refused.push((write, only_unused));
    }
    token.all_are_refused(refused).await?;
    let permitted = vec![
        // The claim is gone with its last finalizer, so nothing else is compared.
        patch(&path("ending"), with_label(&[])),
        patch(&path("held"), finalizers(&["example.com/hold"])),
        patch(&status, condition("Unused")),
        patch(&plain, finalizers(&["example.com/hold", protection])),
        patch(&plain, finalizers(&[protection, "example.com/hold"])),
        patch(&path("data-web-0"), marked("scaled-with")),
        patch(&path("data-web-0"), owner("StatefulSet", "web")),
        patch(&path("data-web-0"), owner("Pod", "web-0")),
        patch(
            &path("marked"),
            json!({"metadata": {"annotations": {"volume-warden.dev/awaiting-pod": null}}}),
        ),
        patch(&path("provisioned"), owner("Pod", "any")),
        create(pod())?,
        creating(json!({}))?,
        creating(finalizers(&[protection]))?,
        (Method::DELETE, path("marked"), dry_run_delete()),
        (Method::DELETE, path("data-web-1"), dry_run_delete()),
    ];
    token.all_are_permitted(permitted).await
}
