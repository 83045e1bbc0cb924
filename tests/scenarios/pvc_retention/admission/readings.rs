//! A claim whose name may mean two sets, while the cache contains only the set to which the claim
//! does not belong.

use super::{
    fixture::{CONTROLLER, LiveReads, OwnerAndMarker, PROTECTION},
    outage_fixture::OutageFixture,
};
use crate::{
    pvc_retention::support::{DELETE_DELETE, ambiguous},
    support::claim,
};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;
use volume_warden_controlplane::eventually;

/// The cache contains the set `c`, whose template `a-b` has claims named `a-b-c-<ordinal>`. It does
/// not contain the set `b-c`, whose template `a` has claims of the same names. With the uid of `c`,
/// the first claim of `b-c` would be deleted together with `c`.
#[tokio::test]
async fn a_claim_does_not_get_the_only_set_in_the_cache_as_owner() -> Result<()> {
    let fixture = OutageFixture::new("readings").await?;
    let admission = &fixture.admission;
    let claims = &admission.sets.space.claims;
    let c = admission
        .create_set("c", DELETE_DELETE, ambiguous("a-b", 5, "of-c"))
        .await?;
    let owned_by_c = OwnerAndMarker {
        owner: Some(&c),
        marker: Some(&c),
    };
    let labels = json!({"metadata": {"labels": {"of-c": "yes"}}});
    admission
        .is_created_by(CONTROLLER, claim("a-b-c-6", labels)?, owned_by_c)
        .await?;
    admission
        .sets
        .claim_is_owned_by("a-b-c-5", &["StatefulSet/c"])
        .await?;

    let frozen = fixture.freeze_watch_of_sets().await?;
    let b_c = admission
        .create_set("b-c", DELETE_DELETE, ambiguous("a", 0, "of-b-c"))
        .await?;
    let first = eventually("the claim exists", async || claims.get_opt("a-b-c-0").await).await?;
    ensure!(!belongs_to(&first, &c), "{:?}", first.metadata);
    // The webhook may have timed out for the first claim. Therefore another claim of the set is
    // created, until one is reviewed in time.
    let labels = json!({"metadata": {"labels": {"of-b-c": "yes"}}});
    let wanted = claim("a-b-c-1", labels)?;
    let reviewed = eventually("the webhook answers in time", async || {
        let before = admission.timeouts(LiveReads::MayTimeOut).await?;
        let created = admission.dry_run(CONTROLLER, &wanted).await?;
        let in_time = admission.timeouts(LiveReads::MayTimeOut).await? == before;
        // A claim of the wrong set ends the wait in any case.
        anyhow::Ok(Some(created).filter(|created| in_time || belongs_to(created, &c)))
    })
    .await?;
    let owned_by_b_c = OwnerAndMarker {
        owner: Some(&b_c),
        marker: Some(&b_c),
    };
    ensure!(reviewed.finalizers() == [PROTECTION], "not reviewed");
    owned_by_b_c.matches(&reviewed)?;

    drop(frozen);
    admission
        .delete_set("c", &DeleteParams::background())
        .await?;
    admission.sets.space.claim_is_gone("a-b-c-5").await?;
    admission
        .sets
        .claim_is_owned_by("a-b-c-0", &["StatefulSet/b-c"])
        .await?;
    let current = admission.sets.claim("a-b-c-0").await?;
    ensure!(current.uid() == first.uid(), "the claim was recreated");
    ensure!(
        current.metadata.deletion_timestamp.is_none(),
        "{:?}",
        current.metadata
    );
    Ok(())
}

/// Returns whether an owner reference or the marker of the claim has the uid `set`.
fn belongs_to(claim: &PersistentVolumeClaim, set: &str) -> bool {
    let owned = claim
        .owner_references()
        .iter()
        .any(|owner| owner.uid == set);
    owned || claim.annotations().values().any(|value| value == set)
}
