//! Work that keeps data does not wait behind work that deletes data, however much of that is
//! queued.

use super::{FaultFixture, claim_write, held_pods};
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

/// Claims whose finalizer is to be removed at the same time.
const BULK: usize = 1000;
/// Removals under way at once, by default.
const IN_FLIGHT: usize = 32;
const AT_ONCE: usize = 32;
/// Limit for the write that keeps the claim: the removals alone, each held until its timeout, take
/// longer than a minute.
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
        eventually("the claims without pods are gone", async || {
            let all = ListParams::default();
            let claims = self.sets.space.claims.list_metadata(&all).await?;
            let left = claims.iter().filter_map(|each| each.metadata.name.as_ref());
            let left = left.filter(|name| name.starts_with("bulk")).count();
            ensure!(left == 0, "{left} are there");
            Ok(())
        })
        .await
    }
}

async fn each_of_bulk(call: impl AsyncFn(String) -> Result<()>) -> Result<()> {
    let calls = stream::iter(0..BULK).map(|index| call(format!("bulk{index}")));
    calls.buffer_unordered(AT_ONCE).try_collect().await
}

fn writes<'a>(seen: &'a [Seen], name: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let path = format!("/persistentvolumeclaims/{name}");
    let writes = seen.iter().enumerate();
    writes.filter_map(move |(place, seen)| {
        let write = seen.method == "PATCH" && seen.path.contains(&path);
        write.then_some((place, seen.path.as_str()))
    })
}

/// A set is scaled down and up again while the removals of a thousand finalizers are queued. The
/// pod's reference on its claim is removed before half of the earlier queued removals, so the
/// claim survives the deletion of its pod.
#[tokio::test]
async fn a_set_that_is_scaled_up_again_keeps_its_claim_among_a_thousand_removals() -> Result<()> {
    let fixture = FaultFixture::new("priorities").await?;
    let (sets, interposer) = (&fixture.sets, &fixture.interposer);
    let builder = fixture.builder("warden").arg("--components=pvc-protection");
    let warden = builder.start().await?;
    sets.create_with("web", 2, RETAIN_DELETE, held_pods())
        .await?;
    sets.claim_is_owned_by("data-web-1", &[]).await?;
    let uid = sets.uid_of_claim("data-web-1").await?;
    fixture.create_bulk().await?;
    sets.scale("web", 1).await?;
    sets.claim_is_owned_by("data-web-1", &["Pod/web-1"]).await?;
    fixture.is_terminating("web-1").await?;

    let bulk = interposer.add(claim_write("PATCH", "bulk").hold());
    fixture.delete_bulk().await?;
    eventually("all removals are due", async || {
        let waiting = warden.queued("pvc-protection").await?;
        ensure!(waiting >= BULK, "{waiting} are");
        Ok(())
    })
    .await?;
    bulk.held(IN_FLIGHT).await?;

    let begun = interposer.requests().len();
    sets.scale("web", 2).await?;
    let kept = |seen: &[Seen]| writes(seen, "data-web-1").any(|(place, _)| place >= begun);
    interposer.wait_for(kept, LIMIT).await?;
    let seen = interposer.requests();
    let mut writes_of_claim = writes(&seen, "data-web-1");
    let place = writes_of_claim.find(|(place, _)| *place >= begun);
    let (place, _) = place.context("the write")?;
    let removals: HashSet<_> = writes(&seen[..place], "bulk")
        .map(|(_, path)| path)
        .collect();
    let before = removals.len();
    ensure!(before < BULK / 2, "{before} removals came first");

    sets.claim_is_owned_by("data-web-1", &[]).await?;
    sets.replaced(&["web-1"], fixture.release("web-1")).await?;
    sets.has_ready("web", 2).await?;
    ensure!(sets.uid_of_claim("data-web-1").await? == uid, "another one");
    drop(bulk);
    fixture.bulk_is_gone().await?;
    ensure!(sets.uid_of_claim("data-web-1").await? == uid, "another one");
    sets.delete("web", &DeleteParams::background()).await
}

/// The decision about deleting another claim of the set requires a LIST of pods, which does not
/// return. The set is reconciled nevertheless.
#[tokio::test]
async fn a_set_whose_pods_cannot_be_listed_keeps_its_claim() -> Result<()> {
    let fixture = FaultFixture::new("priorities-list").await?;
    let (sets, interposer) = (&fixture.sets, &fixture.interposer);
    let _warden = fixture.start().await?;
    sets.create_with("web", 2, RETAIN_DELETE, held_pods())
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
    sets.replaced(&["web-1"], fixture.release("web-1")).await?;
    sets.has_ready("web", 2).await?;
    ensure!(sets.uid_of_claim("data-web-1").await? == uid, "another one");
    ensure!(
        sets.claim("data-web-7").await.is_ok(),
        "no pods were listed"
    );
    drop(lists);
    sets.space.claim_is_gone("data-web-7").await
}
