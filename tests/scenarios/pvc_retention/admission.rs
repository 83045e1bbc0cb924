//! Admission of claims that the StatefulSet controller creates.

mod faults;
mod fixture;
mod outage_fixture;
mod readings;

pub(super) use fixture::retention_webhook_answers;

use super::support::{DELETE_DELETE, DELETE_RETAIN, RETAIN_DELETE, RETAIN_RETAIN};
use crate::support::{claim, guarded};
use anyhow::Result;
use fixture::{AdmissionFixture, CONTROLLER, NEITHER, OwnerAndMarker};
use kube::api::DeleteParams;
use serde_json::{Value, json};

/// STS-15..17, STS-28, STS-30 at the creation of a claim: the webhook adds the set as owner if
/// `whenDeleted` is Delete, and the marker if `whenScaled` is Delete and the ordinal is in range.
#[tokio::test]
async fn claims_get_the_owner_and_the_marker_that_the_policy_requires() -> Result<()> {
    let admission = AdmissionFixture::new(guarded().await?, "stamped").await?;
    for (name, policy) in [
        ("rr", RETAIN_RETAIN),
        ("rd", RETAIN_DELETE),
        ("dr", DELETE_RETAIN),
        ("dd", DELETE_DELETE),
    ] {
        let uid = admission.create_set(name, policy, json!({})).await?;
        admission.sets.changes_are_processed().await?;
        let owner = Some(uid.as_str()).filter(|_| policy.0 == "Delete");
        let marker = Some(uid.as_str()).filter(|_| policy.1 == "Delete");
        let in_range = format!("data-{name}-2");
        admission
            .is_created(&in_range, OwnerAndMarker { owner, marker })
            .await?;
        let out_of_range = format!("data-{name}-3");
        admission
            .is_created(
                &out_of_range,
                OwnerAndMarker {
                    owner,
                    marker: None,
                },
            )
            .await?;
    }
    Ok(())
}

/// STS-55 at the creation of a claim: the range begins at the start ordinal of the set.
#[tokio::test]
async fn the_range_of_a_set_begins_at_its_start_ordinal() -> Result<()> {
    let admission = AdmissionFixture::new(guarded().await?, "start").await?;
    let start = json!({"spec": {"ordinals": {"start": 5}}});
    let uid = admission.create_set("web", RETAIN_DELETE, start).await?;
    admission.sets.changes_are_processed().await?;
    let marked = OwnerAndMarker {
        owner: None,
        marker: Some(&uid),
    };
    for (ordinal, expected) in [(4, NEITHER), (6, marked), (7, marked), (8, NEITHER)] {
        admission
            .is_created(&format!("data-web-{ordinal}"), expected)
            .await?;
    }
    Ok(())
}

/// The webhook changes only claims that the StatefulSet controller creates. A claim that a user
/// creates in advance may have another purpose; the reconciler handles it after a live read of the
/// set.
#[tokio::test]
async fn claims_that_users_create_get_neither_owner_nor_marker() -> Result<()> {
    let admission = AdmissionFixture::new(guarded().await?, "people").await?;
    let uid = admission
        .create_set("web", DELETE_DELETE, json!({}))
        .await?;
    admission.sets.changes_are_processed().await?;
    let claim = claim(
        "data-web-1",
        json!({"metadata": {"labels": {"app": "web"}}}),
    )?;
    let owned_and_marked = OwnerAndMarker {
        owner: Some(&uid),
        marker: Some(&uid),
    };
    for (user, expected) in [
        ("jane", NEITHER),
        ("system:serviceaccount:kube-system:job-controller", NEITHER),
        // The user of all controllers if kube-controller-manager runs without
        // --use-service-account-credentials.
        ("system:kube-controller-manager", owned_and_marked),
        (CONTROLLER, owned_and_marked),
    ] {
        admission
            .is_created_by(user, claim.clone(), expected)
            .await?;
    }
    Ok(())
}

/// The claim `a-b-c-1` may belong to the template `a` of the set `b-c`, or to the template `a-b` of
/// the set `c`. It belongs to the set whose labels it has, otherwise to none.
#[tokio::test]
async fn a_claim_with_an_ambiguous_name_belongs_to_the_set_whose_labels_it_has() -> Result<()> {
    let admission = AdmissionFixture::new(guarded().await?, "ambiguous").await?;
    let template = |name: &str| {
        let claim = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "absent", "resources": {"requests": {"storage": "1Gi"}}});
        let mounts = json!([{"name": name, "mountPath": "/data"}]);
        json!({"spec": {
            "template": {"spec": {"containers": [{"name": "main", "image": "main", "volumeMounts": mounts}]}},
            "volumeClaimTemplates": [{"metadata": {"name": name}, "spec": claim}],
        }})
    };
    let first = admission
        .create_set("b-c", DELETE_DELETE, template("a"))
        .await?;
    admission.sets.changes_are_processed().await?;
    let owned_by_first = OwnerAndMarker {
        owner: Some(&first),
        marker: Some(&first),
    };
    let labelled = |labels: Value| claim("a-b-c-1", json!({"metadata": {"labels": labels}}));
    for (labels, expected) in [
        (json!({"app": "b-c"}), owned_by_first),
        // The name may mean another set, so the name without the labels is not sufficient.
        (json!(null), NEITHER),
        (json!({"app": "another-app"}), NEITHER),
    ] {
        admission
            .is_created_by(CONTROLLER, labelled(labels)?, expected)
            .await?;
    }

    let second = admission
        .create_set("c", DELETE_DELETE, template("a-b"))
        .await?;
    admission.sets.changes_are_processed().await?;
    let owned_by_second = OwnerAndMarker {
        owner: Some(&second),
        marker: Some(&second),
    };
    for (labels, expected) in [
        (json!({"app": "b-c"}), owned_by_first),
        (json!({"app": "c"}), owned_by_second),
        (json!({"app": "another-app"}), NEITHER),
        (json!(null), NEITHER),
    ] {
        admission
            .is_created_by(CONTROLLER, labelled(labels)?, expected)
            .await?;
    }
    Ok(())
}

/// The StatefulSet controller may create a claim of a deleted set, because it reads sets from its
/// cache. Such a claim would never get an owner, so the webhook refuses it. If the policy retains
/// the claims of a deleted set, the claim is created.
#[tokio::test]
async fn a_claim_of_a_deleted_set_is_refused() -> Result<()> {
    let admission = AdmissionFixture::new(guarded().await?, "gone").await?;
    for (name, policy) in [("keeps", RETAIN_RETAIN), ("web", DELETE_RETAIN)] {
        admission.create_set(name, policy, json!({})).await?;
    }
    admission.sets.changes_are_processed().await?;
    for name in ["keeps", "web"] {
        admission
            .delete_set(name, &DeleteParams::background())
            .await?;
    }
    admission.is_refused("data-web-1").await?;
    // The claim is also refused after the watch has delivered the deletion of the set.
    admission.sets.changes_are_processed().await?;
    admission.is_refused("data-web-1").await?;
    admission.is_created("data-keeps-1", NEITHER).await
}

/// If a set is deleted with `--cascade=orphan`, its claims get no owner. This also applies to a
/// claim that the StatefulSet controller creates after the deletion: the webhook neither changes
/// nor refuses it.
#[tokio::test]
async fn a_claim_of_a_set_deleted_with_orphan_is_created_without_owner() -> Result<()> {
    let admission = AdmissionFixture::new(guarded().await?, "orphaned").await?;
    admission
        .create_set("web", DELETE_RETAIN, json!({}))
        .await?;
    admission.sets.changes_are_processed().await?;
    admission.delete_set("web", &DeleteParams::orphan()).await?;
    admission.sets.changes_are_processed().await?;
    admission.is_created("data-web-1", NEITHER).await
}
