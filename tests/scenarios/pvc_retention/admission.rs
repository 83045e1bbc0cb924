//! Admission of claims that the StatefulSet controller creates.

mod births;
mod faults;
mod outage_fixture;
mod readings;

pub(super) use births::stamps_are_given;

use super::support::{DELETE_DELETE, DELETE_RETAIN, RETAIN_DELETE, RETAIN_RETAIN};
use crate::support::{claim, guarded};
use anyhow::Result;
use births::{Births, CONTROLLER, NOTHING, Stamps};
use kube::api::DeleteParams;
use serde_json::{Value, json};

/// STS-15..17, STS-28, STS-30 at creation: the owner follows `whenDeleted`, the mark follows
/// `whenScaled` if the ordinal is in range.
#[tokio::test]
async fn claims_are_stamped_and_marked_as_the_policy_says() -> Result<()> {
    let births = Births::new(guarded().await?, "stamped").await?;
    for (name, policy) in [
        ("rr", RETAIN_RETAIN),
        ("rd", RETAIN_DELETE),
        ("dr", DELETE_RETAIN),
        ("dd", DELETE_DELETE),
    ] {
        let uid = births.set(name, policy, json!({})).await?;
        births.0.settled().await?;
        let owner = Some(uid.as_str()).filter(|_| policy.0 == "Delete");
        let mark = Some(uid.as_str()).filter(|_| policy.1 == "Delete");
        let inside = format!("data-{name}-2");
        births.is_born(&inside, Stamps { owner, mark }).await?;
        let beyond = format!("data-{name}-3");
        births
            .is_born(&beyond, Stamps { owner, mark: None })
            .await?;
    }
    Ok(())
}

/// STS-55 at creation: the range begins at the set's start ordinal.
#[tokio::test]
async fn the_range_of_a_set_begins_at_its_start_ordinal() -> Result<()> {
    let births = Births::new(guarded().await?, "start").await?;
    let start = json!({"spec": {"ordinals": {"start": 5}}});
    let uid = births.set("web", RETAIN_DELETE, start).await?;
    births.0.settled().await?;
    let marked = Stamps {
        owner: None,
        mark: Some(&uid),
    };
    for (ordinal, stamps) in [(4, NOTHING), (6, marked), (7, marked), (8, NOTHING)] {
        births
            .is_born(&format!("data-web-{ordinal}"), stamps)
            .await?;
    }
    Ok(())
}

/// A claim that a user creates beforehand may have another purpose; the reconciler reads the live
/// set before it writes.
#[tokio::test]
async fn claims_that_people_create_are_not_stamped() -> Result<()> {
    let births = Births::new(guarded().await?, "people").await?;
    let uid = births.set("web", DELETE_DELETE, json!({})).await?;
    births.0.settled().await?;
    let claim = claim(
        "data-web-1",
        json!({"metadata": {"labels": {"app": "web"}}}),
    )?;
    let stamped = Stamps {
        owner: Some(&uid),
        mark: Some(&uid),
    };
    for (user, stamps) in [
        ("jane", NOTHING),
        ("system:serviceaccount:kube-system:job-controller", NOTHING),
        // A controller manager without an account for each controller.
        ("system:kube-controller-manager", stamped),
        (CONTROLLER, stamped),
    ] {
        births.is_born_to(user, claim.clone(), stamps).await?;
    }
    Ok(())
}

/// `a-b-c-1` belongs to the template `a` of the set `b-c`, or to `a-b` of `c`: to the set whose
/// labels it has, otherwise to none.
#[tokio::test]
async fn a_name_with_two_readings_is_stamped_only_if_one_is_right() -> Result<()> {
    let births = Births::new(guarded().await?, "ambiguous").await?;
    let template = |name: &str| {
        let claim = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "absent", "resources": {"requests": {"storage": "1Gi"}}});
        let mounts = json!([{"name": name, "mountPath": "/data"}]);
        json!({"spec": {
            "template": {"spec": {"containers": [{"name": "main", "image": "main", "volumeMounts": mounts}]}},
            "volumeClaimTemplates": [{"metadata": {"name": name}, "spec": claim}],
        }})
    };
    let first = births.set("b-c", DELETE_DELETE, template("a")).await?;
    births.0.settled().await?;
    let of_first = Stamps {
        owner: Some(&first),
        mark: Some(&first),
    };
    let labelled = |labels: Value| claim("a-b-c-1", json!({"metadata": {"labels": labels}}));
    for (labels, stamps) in [
        (json!({"app": "b-c"}), of_first),
        // The name could be another set's, so the name without the labels is not enough.
        (json!(null), NOTHING),
        (json!({"app": "another-app"}), NOTHING),
    ] {
        births
            .is_born_to(CONTROLLER, labelled(labels)?, stamps)
            .await?;
    }

    let second = births.set("c", DELETE_DELETE, template("a-b")).await?;
    births.0.settled().await?;
    let of_second = Stamps {
        owner: Some(&second),
        mark: Some(&second),
    };
    for (labels, stamps) in [
        (json!({"app": "b-c"}), of_first),
        (json!({"app": "c"}), of_second),
        (json!({"app": "another-app"}), NOTHING),
        (json!(null), NOTHING),
    ] {
        births
            .is_born_to(CONTROLLER, labelled(labels)?, stamps)
            .await?;
    }
    Ok(())
}

/// The StatefulSet controller creates claims from a cached set; a claim of a deleted set would
/// never get an owner. If the policy retains the claim anyway, it is admitted.
#[tokio::test]
async fn a_claim_of_a_set_that_is_gone_is_refused() -> Result<()> {
    let births = Births::new(guarded().await?, "gone").await?;
    for (name, policy) in [("keeps", RETAIN_RETAIN), ("web", DELETE_RETAIN)] {
        births.set(name, policy, json!({})).await?;
    }
    births.0.settled().await?;
    for name in ["keeps", "web"] {
        births.delete_set(name, &DeleteParams::background()).await?;
    }
    births.is_refused("data-web-1").await?;
    // Also when the watch has delivered the deletion of the set.
    births.0.settled().await?;
    births.is_refused("data-web-1").await?;
    births.is_born("data-keeps-1", NOTHING).await
}

/// Deleting a set with `orphan` leaves its claims unchanged, also those that are still being
/// created.
#[tokio::test]
async fn a_claim_of_an_orphaning_set_is_neither_stamped_nor_refused() -> Result<()> {
    let births = Births::new(guarded().await?, "orphaned").await?;
    births.set("web", DELETE_RETAIN, json!({})).await?;
    births.0.settled().await?;
    births.delete_set("web", &DeleteParams::orphan()).await?;
    births.0.settled().await?;
    births.is_born("data-web-1", NOTHING).await
}
