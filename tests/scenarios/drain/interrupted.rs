//! Drains that are interrupted while they wait for the write of a claim.

use super::support::{CLAIM_FINALIZER, DrainFixture, Drained, MAX_RUNS};
use crate::support::of_no_volume;
use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::json;
use std::process::Stdio;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    time::timeout,
};
use volume_warden_controlplane::{DEFAULT_TIMEOUT, Rule, RuleHandle};

const MANY: usize = 1000;

async fn protected_claims(drain_fixture: &DrainFixture) -> Result<Vec<String>> {
    let all = ListParams::default();
    let mut claims = drain_fixture.space.claims.list_metadata(&all).await?.items;
    claims.retain(|claim| {
        claim
            .finalizers()
            .iter()
            .any(|each| each == CLAIM_FINALIZER)
    });
    Ok(claims.iter().map(ResourceExt::name_any).collect())
}

fn hold_patches(drain_fixture: &DrainFixture, claim: &str) -> RuleHandle {
    let path = format!(
        "/{}/persistentvolumeclaims/{claim}",
        drain_fixture.space.name
    );
    drain_fixture
        .interposer
        .add(Rule::on("PATCH").path_contains(path).hold())
}

#[tokio::test]
async fn a_drain_that_was_killed_is_run_again() -> Result<()> {
    let drain_fixture = DrainFixture::new("many").await?;
    let names: Vec<_> = (0..MANY).map(|index| format!("many-{index:04}")).collect();
    let created = stream::iter(&names).map(|name| drain_fixture.create_claim(name, of_no_volume()));
    let created = created.buffer_unordered(32);
    created.try_for_each(async |_| Ok(())).await?;
    let held_patch = hold_patches(&drain_fixture, "many-0500");
    kill_during(&drain_fixture, &held_patch).await?;
    drop(held_patch);
    let left = protected_claims(&drain_fixture).await?;
    ensure!(left.len() < MANY, "the killed drain removed no finalizer");
    check_progress(&drain_fixture, &left).await?;
    // On a busy machine, a drain may lose a Lease, and is then run again.
    for _ in 0..MAX_RUNS {
        let drained = drain_fixture.drain(&["--in-tree=off"]).await?;
        if drained.code == Some(0) {
            drained.left_nothing()?;
            assert_eq!(protected_claims(&drain_fixture).await?, [""; 0]);
            return Ok(());
        }
        drained.failed("run volume-warden drain again")?;
    }
    bail!("no run of the drain completed")
}

/// Starts a drain, and kills it while its write is held. On a busy machine, the drain may lose a
/// Lease before, and is then started again.
async fn kill_during(drain_fixture: &DrainFixture, held_patch: &RuleHandle) -> Result<()> {
    for _ in 0..MAX_RUNS {
        let mut drain = drain_fixture.command(&["--in-tree=off"]);
        let drain = drain.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut drain = drain.spawn()?;
        tokio::select! {
            held = held_patch.held(1) => {
                held?;
                return Ok(drain.kill().await?);
            }
            _ = drain.wait() => {}
        }
        let ended = Drained::from_output(drain.wait_with_output().await?)?;
        lost_a_lease(&ended)?;
    }
    bail!("no run of the drain sent the write")
}

/// Checks that the drain ended because it lost its Lease, or because the Lease of another drain did
/// not expire in time.
fn lost_a_lease(drained: &Drained) -> Result<()> {
    drained
        .failed("run volume-warden drain again")
        .or_else(|_| drained.failed("of waiting"))
}

/// Checks that a drain that waits for the write of one claim of `left` reports its progress.
async fn check_progress(drain_fixture: &DrainFixture, left: &[String]) -> Result<()> {
    // The PATCH that was held for `many-0500` may still reach the API server.
    let other = left.iter().find(|name| *name != "many-0500");
    let held_patch = hold_patches(drain_fixture, other.context("no other claim is left")?);
    for _ in 0..MAX_RUNS {
        let (progress, drained) = first_progress(drain_fixture, &held_patch).await?;
        if let Some((done, total)) = progress {
            let known = left.len();
            ensure!(
                total <= known,
                "{done} of {total}, with {known} claims left"
            );
            return Ok(());
        }
        // The Lease of the previous drain must expire first, and this drain may lose it, too.
        lost_a_lease(&drained)?;
    }
    bail!("no run of the drain reported progress")
}

/// Runs a drain, and returns the numbers of the first progress line with unfinished objects: how
/// many are done, and how many there are. Releases `held_patch` at that line, so that the drain
/// exits.
async fn first_progress(
    drain_fixture: &DrainFixture,
    held_patch: &RuleHandle,
) -> Result<(Option<(usize, usize)>, Drained)> {
    let mut drain = drain_fixture.command(&["--in-tree=off"]);
    let drain = drain.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut drain = drain.spawn()?;
    let mut lines = BufReader::new(drain.stdout.take().context("a pipe")?).lines();
    let mut first = None;
    while let Some(line) = lines.next_line().await? {
        let progress = line
            .strip_suffix(" done")
            .and_then(|line| line.split_once(" of "));
        let Some((done, total)) = progress else {
            continue;
        };
        let (done, total) = (done.parse::<usize>()?, total.parse::<usize>()?);
        if first.is_none() && done < total {
            first = Some((done, total));
            held_patch.release();
        }
    }
    Ok((
        first,
        Drained::from_output(drain.wait_with_output().await?)?,
    ))
}

/// A user interrupts a drain by SIGINT, and the kubelet terminates its pod by SIGTERM.
#[tokio::test]
async fn a_terminated_drain_releases_its_lease() -> Result<()> {
    let drain_fixture = DrainFixture::new("terminated").await?;
    drain_fixture.create_claim("data", json!({})).await?;
    let leases = Api::<Lease>::namespaced(drain_fixture.space.cluster.client(), "volume-warden");
    for (flag, name) in [("-INT", "SIGINT"), ("-TERM", "SIGTERM")] {
        let held_patch = hold_patches(&drain_fixture, "data");
        let mut drain = drain_fixture.command(&["--in-tree=off"]);
        let drain = drain.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        held_patch.held(1).await?;
        let process = drain.id().context("the drain has exited")?.to_string();
        Command::new("kill").args([flag, &process]).status().await?;
        let output = timeout(DEFAULT_TIMEOUT, drain.wait_with_output());
        let output = output.await.context("the drain does not exit")??;
        let message = String::from_utf8(output.stderr)?;
        assert_eq!(
            message,
            format!(
                "volume-warden: drain was interrupted by {name} before it was done; run volume-warden drain again\n"
            )
        );
        assert_eq!(output.status.code(), Some(1));
        let leases = leases.list(&ListParams::default()).await?.items;
        ensure!(!leases.is_empty(), "there is no Lease");
        for lease in leases {
            let holder = lease.spec.and_then(|spec| spec.holder_identity);
            assert_eq!(holder.unwrap_or_default(), "");
        }
    }
    drain_fixture
        .drain(&["--in-tree=off"])
        .await?
        .left_nothing()
}
