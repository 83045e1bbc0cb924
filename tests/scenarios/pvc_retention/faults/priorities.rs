//! Writes that keep data do not wait for queued writes that delete data, whatever their number.

use super::{FaultFixture, claim_write, pods_with_finalizer};
use crate::{
    pvc_retention::support::RETAIN_DELETE,
    support::{claim, of_no_volume},
};
use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;
use std::{collections::HashSet, time::Duration};
use volume_warden_controlplane::{Rule, Seen, eventually};

/// Number of claims whose finalizer is due for removal at the same time.
const BULK: usize = 1000;
/// Default limit of concurrent removals of finalizers.
const IN_FLIGHT: usize = 32;
/// Concurrent requests of the test itself.
const CONCURRENT_REQUESTS: usize = 32;
/// Time limit of the write that keeps the claim. The queued removals take longer, because each is
/// held until its timeout.
const LIMIT: Duration = Duration::from_secs(60);

impl FaultFixture {
    async fn create_bulk(&self) -> Result<()> {
        each_of_bulk(async |name| {
            let mut changes = of_no_volume();
            changes["metadata"] = json!({"finalizers": ["kubernetes.io/pvc-protection"]});
            let claim = claim(&name, changes)?;
            let claims = &self.sets.space.claims;
            claims.create(&PostParams::default(), &claim).await?;
            Ok(())
        })
        .await
    }

    async fn delete_bulk(&self) -> Result<()> {
        each_of_bulk(async |name| self.sets.space.delete_claim(&name).await).await
    }

    async fn bulk_is_gone(&self) -> Result<()> {
        eventually("the claims bulk* are deleted", async || {
            let all = ListParams::default();
            let claims = self.sets.space.claims.list_metadata(&all).await?;
            let left = claims.iter().filter_map(|each| each.metadata.name.as_ref());
            let left = left.filter(|name| name.starts_with("bulk")).count();
            ensure!(left == 0, "{left} claims exist");
            Ok(())
        })
        .await
    }
}

async fn each_of_bulk(call: impl AsyncFn(String) -> Result<()>) -> Result<()> {
    let calls = stream::iter(0..BULK).map(|index| call(format!("bulk{index}")));
    calls
        .buffer_unordered(CONCURRENT_REQUESTS)
        .try_collect()
        .await
}

/// The index and the path of each patch of a claim whose name begins with `name`.
fn claim_patches<'a>(
    requests: &'a [Seen],
    name: &'a str,
) -> impl Iterator<Item = (usize, &'a str)> {
    let path = format!("/persistentvolumeclaims/{name}");
    let requests = requests.iter().enumerate();
    requests.filter_map(move |(index, request)| {
        let is_patch = request.method == "PATCH" && request.path.contains(&path);
        is_patch.then_some((index, request.path.as_str()))
    })
}

/// A set is scaled up again while the removals of a thousand finalizers are queued. Volume Warden
/// removes the owner reference to the pod before half of the removals, so the claim is not deleted
/// with its old pod.
#[tokio::test]
async fn a_set_that_is_scaled_up_again_keeps_its_claim_among_a_thousand_removals() -> Result<()> {
    let fixture = FaultFixture::new("priorities").await?;
    let (sets, interposer) = (&fixture.sets, &fixture.interposer);
    let builder = fixture.builder("warden").arg("--components=pvc-protection");
    let warden = builder.start().await?;
    sets.create_with("web", 2, RETAIN_DELETE, pods_with_finalizer())
        .await?;
    sets.claim_is_owned_by("data-web-1", &[]).await?;
    let uid = sets.uid_of_claim("data-web-1").await?;
    fixture.create_bulk().await?;
    sets.scale("web", 1).await?;
    sets.claim_is_owned_by("data-web-1", &["Pod/web-1"]).await?;
    fixture.is_terminating("web-1").await?;

    let bulk = interposer.add(claim_write("PATCH", "bulk").hold());
    fixture.delete_bulk().await?;
    eventually("all removals are queued", async || {
        let waiting = warden.queued("pvc-protection").await?;
        ensure!(waiting >= BULK, "{waiting} are queued");
        Ok(())
    })
    .await?;
    bulk.held(IN_FLIGHT).await?;

    let scaled_up = interposer.requests().len();
    sets.scale("web", 2).await?;
    let is_kept = |requests: &[Seen]| {
        claim_patches(requests, "data-web-1").any(|(index, _)| index >= scaled_up)
    };
    interposer.wait_for(is_kept, LIMIT).await?;
    let requests = interposer.requests();
    let mut patches_of_claim = claim_patches(&requests, "data-web-1");
    let index = patches_of_claim.find(|(index, _)| *index >= scaled_up);
    let (index, _) = index.context("a patch of data-web-1")?;
    let removals: HashSet<_> = claim_patches(&requests[scaled_up..index], "bulk")
        .map(|(_, path)| path)
        .collect();
    let before = removals.len();
    ensure!(before < BULK / 2, "{before} removals were sent before");

    sets.claim_is_owned_by("data-web-1", &[]).await?;
    sets.pods_are_replaced(&["web-1"], fixture.remove_finalizer("web-1"))
        .await?;
    sets.has_ready("web", 2).await?;
    ensure!(
        sets.uid_of_claim("data-web-1").await? == uid,
        "the claim was recreated"
    );
    drop(bulk);
    fixture.bulk_is_gone().await?;
    ensure!(
        sets.uid_of_claim("data-web-1").await? == uid,
        "the claim was recreated"
    );
    sets.delete("web", &DeleteParams::background()).await
}

/// A set is scaled up again while the LIST of pods does not return. Volume Warden needs that LIST
/// before it deletes another claim of the set. The claim of the ordinal that is in range again is
/// kept nevertheless.
#[tokio::test]
async fn a_set_whose_pods_cannot_be_listed_keeps_its_claim() -> Result<()> {
    let fixture = FaultFixture::new("priorities-list").await?;
    let (sets, interposer) = (&fixture.sets, &fixture.interposer);
    let _warden = fixture.start().await?;
    sets.create_with("web", 2, RETAIN_DELETE, pods_with_finalizer())
        .await?;
    let uid = sets.uid_of_claim("data-web-1").await?;
    sets.scale("web", 1).await?;
    sets.claim_is_owned_by("data-web-1", &["Pod/web-1"]).await?;
    fixture.is_terminating("web-1").await?;
    let lists = Rule::list_of("pods");
    let lists = interposer.add(lists.hold());
    fixture.create_marked_claim("data-web-7", "web").await?;
    lists.held(1).await?;
    sets.scale("web", 2).await?;
    sets.claim_is_owned_by("data-web-1", &[]).await?;
    sets.pods_are_replaced(&["web-1"], fixture.remove_finalizer("web-1"))
        .await?;
    sets.has_ready("web", 2).await?;
    ensure!(
        sets.uid_of_claim("data-web-1").await? == uid,
        "the claim was recreated"
    );
    ensure!(
        sets.claim("data-web-7").await.is_ok(),
        "data-web-7 was deleted without a LIST of pods"
    );
    drop(lists);
    sets.space.claim_is_gone("data-web-7").await
}
