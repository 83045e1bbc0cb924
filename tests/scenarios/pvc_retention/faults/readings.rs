//! Claims whose name may mean two sets: before a claim gets one set as owner, the other set is read
//! live.

use super::FaultFixture;
use crate::pvc_retention::support::{DELETE_DELETE, DELETE_RETAIN, MARK, RETAIN_RETAIN, ambiguous};
use anyhow::{Context, Result, ensure};
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;
use volume_warden_controlplane::Rule;

/// The claims of `c` are named `a-b-c-<ordinal>`, and so are those of `b-c`. The watch has not
/// delivered `b-c` yet. Its claim does not get `c` as owner.
#[tokio::test]
async fn a_claim_of_a_set_that_is_not_in_the_cache_gets_no_other_owner() -> Result<()> {
    let fixture = FaultFixture::new("readings").await?;
    let sets = &fixture.sets;
    let _warden = fixture.start().await?;
    let changes = ambiguous("a-b", 5, "of-c");
    let c = sets.create_with("c", 1, DELETE_DELETE, changes).await?;
    let c = c.metadata.uid.context("a uid")?;
    sets.claim_is_owned_by("a-b-c-5", &["StatefulSet/c"])
        .await?;
    let frozen = fixture
        .interposer
        .add(Rule::watch_of("statefulsets").freeze_stream());
    frozen.held(1).await?;
    let reads = Rule::on("GET").path_contains("/statefulsets/b-c");
    let reads = fixture.interposer.add(reads);
    let changes = ambiguous("a", 0, "of-b-c");
    sets.create_with("b-c", 1, DELETE_DELETE, changes).await?;
    let created = sets.claim("a-b-c-0").await?;
    // Triggers a reconcile of `c` with all its claims.
    let unmarked = json!({"metadata": {"annotations": {MARK: null}}});
    sets.space.patch_claim("a-b-c-5", unmarked).await?;
    sets.claim_is_marked("a-b-c-5", Some(&c)).await?;
    let claim = sets.claim("a-b-c-0").await?;
    ensure!(claim.owner_references().is_empty(), "{:?}", claim.metadata);
    ensure!(claim.annotations().is_empty(), "{:?}", claim.metadata);
    assert_eq!(fixture.claim_writes_of("a-b-c-0"), 0);
    ensure!(reads.taken() > 0, "b-c was not read");

    drop(frozen);
    sets.claim_is_owned_by("a-b-c-0", &["StatefulSet/b-c"])
        .await?;
    sets.delete("c", &DeleteParams::background()).await?;
    sets.space.claim_is_gone("a-b-c-5").await?;
    let current = sets.claim("a-b-c-0").await?;
    ensure!(current.uid() == created.uid(), "the claim was recreated");
    ensure!(current.metadata.deletion_timestamp.is_none(), "{current:?}");
    Ok(())
}

/// A claim without labels that no pod mounts may belong to a set that does not exist yet, and gets
/// no owner. A claim that a pod of the existing set mounts belongs to that set, as in Kubernetes,
/// whatever its labels.
#[tokio::test]
async fn a_claim_without_labels_is_adopted_when_its_pod_mounts_it() -> Result<()> {
    let fixture = FaultFixture::new("adopted").await?;
    let sets = &fixture.sets;
    let _warden = fixture.start().await?;
    sets.space.create_claim("a-b-c-0").await?;
    sets.space.create_claim("a-b-c-1").await?;
    let changes = ambiguous("a-b", 0, "of-c");
    sets.create_with("c", 1, DELETE_RETAIN, changes).await?;
    sets.claim_is_owned_by("a-b-c-0", &["StatefulSet/c"])
        .await?;
    sets.changes_are_processed().await?;
    assert_eq!(fixture.claim_writes_of("a-b-c-1"), 0);
    // After the pod is deleted, the owner reference shows that the claim belongs to the set, so
    // Volume Warden removes the owner reference when the policy changes.
    sets.scale("c", 0).await?;
    sets.space.pod_is_gone("c-0").await?;
    sets.set_policy("c", RETAIN_RETAIN).await?;
    sets.claim_is_owned_by("a-b-c-0", &[]).await
}
