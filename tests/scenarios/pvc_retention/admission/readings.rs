//! A claim whose name another set's claim could also have, while the cache does not have its own
//! set.

use super::{
    births::{CONTROLLER, PROTECTION, Reads, Stamps},
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

/// The cache has the set `c`, whose template `a-b` has claims named `a-b-c-<ordinal>`, but not
/// `b-c`, whose template `a` has the same names. With the uid of `c`, the first claim of `b-c`
/// would be deleted together with `c`.
#[tokio::test]
async fn a_claim_is_not_stamped_with_the_only_set_that_the_watch_knows() -> Result<()> {
    let fixture = OutageFixture::new("readings").await?;
    let births = &fixture.births;
    let claims = &births.0.space.claims;
    let c = births
        .set("c", DELETE_DELETE, ambiguous("a-b", 5, "of-c"))
        .await?;
    let of_c = Stamps {
        owner: Some(&c),
        mark: Some(&c),
    };
    let labels = json!({"metadata": {"labels": {"of-c": "yes"}}});
    births
        .is_born_to(CONTROLLER, claim("a-b-c-6", labels)?, of_c)
        .await?;
    births
        .0
        .claim_is_owned_by("a-b-c-5", &["StatefulSet/c"])
        .await?;

    let frozen = fixture.freeze_sets().await?;
    let b_c = births
        .set("b-c", DELETE_DELETE, ambiguous("a", 0, "of-b-c"))
        .await?;
    let born = eventually("the claim exists", async || claims.get_opt("a-b-c-0").await).await?;
    ensure!(!belongs_to(&born, &c), "{:?}", born.metadata);
    // Not only of the first creation, for which the webhook may have timed out.
    let labels = json!({"metadata": {"labels": {"of-b-c": "yes"}}});
    let wanted = claim("a-b-c-1", labels)?;
    let reviewed = eventually("the webhook answers in time", async || {
        let before = births.late(Reads::MayBeLate).await?;
        let created = births.dry_run(CONTROLLER, &wanted).await?;
        let in_time = births.late(Reads::MayBeLate).await? == before;
        // A claim of the wrong set ends the wait in any case.
        anyhow::Ok(Some(created).filter(|created| in_time || belongs_to(created, &c)))
    })
    .await?;
    let of_b_c = Stamps {
        owner: Some(&b_c),
        mark: Some(&b_c),
    };
    ensure!(reviewed.finalizers() == [PROTECTION], "not reviewed");
    of_b_c.are_on(&reviewed)?;

    drop(frozen);
    births.delete_set("c", &DeleteParams::background()).await?;
    births.0.space.claim_is_gone("a-b-c-5").await?;
    births
        .0
        .claim_is_owned_by("a-b-c-0", &["StatefulSet/b-c"])
        .await?;
    let left = births.0.claim("a-b-c-0").await?;
    ensure!(left.uid() == born.uid(), "it was replaced");
    ensure!(
        left.metadata.deletion_timestamp.is_none(),
        "{:?}",
        left.metadata
    );
    Ok(())
}

/// By an owner reference or the mark.
fn belongs_to(claim: &PersistentVolumeClaim, set: &str) -> bool {
    let owned = claim
        .owner_references()
        .iter()
        .any(|owner| owner.uid == set);
    owned || claim.annotations().values().any(|value| value == set)
}
