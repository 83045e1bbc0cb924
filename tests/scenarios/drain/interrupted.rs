//! A drain that does not come to its end, by one of a thousand claims.

use super::support::{CLAIM_FINALIZER, Drained, RUNS, Stage};
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

async fn protected(stage: &Stage) -> Result<Vec<String>> {
    let all = ListParams::default();
    let mut claims = stage.space.claims.list_metadata(&all).await?.items;
    claims.retain(|claim| {
        claim
            .finalizers()
            .iter()
            .any(|each| each == CLAIM_FINALIZER)
    });
    Ok(claims.iter().map(ResourceExt::name_any).collect())
}

fn held(stage: &Stage, claim: &str) -> RuleHandle {
    let path = format!("/{}/persistentvolumeclaims/{claim}", stage.space.name);
    stage
        .interposer
        .add(Rule::on("PATCH").path_contains(path).hold())
}

#[tokio::test]
async fn a_drain_that_was_killed_is_run_again() -> Result<()> {
    let stage = Stage::new("many").await?;
    let names: Vec<_> = (0..MANY).map(|index| format!("many-{index:04}")).collect();
    let created = stream::iter(&names).map(|name| stage.create_claim(name, of_no_volume()));
    let created = created.buffer_unordered(32);
    created.try_for_each(async |_| Ok(())).await?;
    let middle = held(&stage, "many-0500");
    let mut killed = stage.command(&["--in-tree=off"]);
    let mut killed = killed.stdout(Stdio::null()).spawn()?;
    middle.held(1).await?;
    killed.kill().await?;
    drop(middle);
    let left = protected(&stage).await?;
    ensure!(left.len() < MANY, "nothing was done before");
    reports_of_progress(&stage, &left).await?;
    // On a machine that is too busy to answer, a Lease may be lost, and then it is run again.
    for _ in 0..RUNS {
        let drained = stage.drain(&["--in-tree=off"]).await?;
        if drained.code == Some(0) {
            drained.left_nothing()?;
            assert_eq!(protected(&stage).await?, [""; 0]);
            return Ok(());
        }
        drained.failed("run volume-warden drain again")?;
    }
    bail!("it comes to no end")
}

/// A drain that waits for one of these claims says how many of them are done.
async fn reports_of_progress(stage: &Stage, left: &[String]) -> Result<()> {
    // The last one's answer may still have come.
    let other = left.iter().find(|name| *name != "many-0500");
    let waited_for = held(stage, other.context("nothing was left")?);
    for _ in 0..RUNS {
        let (progressed, drained) = first_progress(stage, &waited_for).await?;
        if let Some((done, total)) = progressed {
            let known = left.len();
            ensure!(total <= known, "{done} of {total}, {known}");
            return Ok(());
        }
        // The Lease of its predecessor has to expire first, and may be lost again.
        drained
            .failed("run volume-warden drain again")
            .or_else(|_| drained.failed("of waiting"))?;
    }
    bail!("it ends without a word about progress")
}

/// What a drain says first of how many are done, and of how many, while some are not. What is held
/// is released then, so that it ends.
async fn first_progress(
    stage: &Stage,
    waited_for: &RuleHandle,
) -> Result<(Option<(usize, usize)>, Drained)> {
    let mut drain = stage.command(&["--in-tree=off"]);
    let drain = drain.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut drain = drain.spawn()?;
    let mut lines = BufReader::new(drain.stdout.take().context("a pipe")?).lines();
    let mut progressed = None;
    while let Some(line) = lines.next_line().await? {
        let progress = line
            .strip_suffix(" done")
            .and_then(|line| line.split_once(" of "));
        let Some((done, total)) = progress else {
            continue;
        };
        let (done, total) = (done.parse::<usize>()?, total.parse::<usize>()?);
        if progressed.is_none() && done < total {
            progressed = Some((done, total));
            waited_for.release();
        }
    }
    Ok((progressed, Drained::of(drain.wait_with_output().await?)?))
}

/// By the user who runs it, or by its Job.
#[tokio::test]
async fn a_terminated_drain_releases_its_lease() -> Result<()> {
    let stage = Stage::new("terminated").await?;
    stage.create_claim("data", json!({})).await?;
    let leases = Api::<Lease>::namespaced(stage.space.cluster.client(), "volume-warden");
    for (flag, name) in [("-INT", "SIGINT"), ("-TERM", "SIGTERM")] {
        let middle = held(&stage, "data");
        let mut drain = stage.command(&["--in-tree=off"]);
        let drain = drain.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        middle.held(1).await?;
        let process = drain.id().context("it runs")?.to_string();
        Command::new("kill").args([flag, &process]).status().await?;
        let ended = timeout(DEFAULT_TIMEOUT, drain.wait_with_output());
        let ended = ended.await.context("it goes on")??;
        let message = String::from_utf8(ended.stderr)?;
        assert_eq!(
            message,
            format!(
                "volume-warden: drain was interrupted by {name} before it was done; run volume-warden drain again\n"
            )
        );
        assert_eq!(ended.status.code(), Some(1));
        for lease in leases.list(&ListParams::default()).await? {
            let holder = lease.spec.and_then(|spec| spec.holder_identity);
            assert_eq!(holder.unwrap_or_default(), "");
        }
    }
    stage.drain(&["--in-tree=off"]).await?.left_nothing()
}
