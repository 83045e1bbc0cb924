//! The shipped Job and its rights.

use super::support::Stage;
use anyhow::{Result, ensure};
use volume_warden_controlplane::{Calls, eventually};

/// The arguments of the container of the shipped Job.
pub async fn of_the_job(stage: &Stage) -> Result<Vec<String>> {
    let path = "jsonpath={.spec.template.spec.containers[0].args[*]}";
    let job = [
        "get",
        "job",
        "volume-warden-drain",
        "-n",
        "volume-warden",
        "-o",
        path,
    ];
    let arguments = stage.space.cluster.kubectl(&job).await?;
    let mut arguments = arguments.split_whitespace().map(str::to_owned);
    ensure!(
        arguments.next().as_deref() == Some("drain"),
        "{arguments:?}"
    );
    Ok(arguments.collect())
}

/// The webhooks were deleted before anything else was written, and no right was missing.
pub fn in_order(calls: &Calls) -> Result<()> {
    let forbidden: Vec<_> = calls.iter().filter(|call| call.code == 403).collect();
    ensure!(forbidden.is_empty(), "{forbidden:?}");
    let writes = calls.writes();
    let verbs: Vec<_> = writes.iter().map(|call| call.verb.as_str()).collect();
    let deleted = verbs.iter().rposition(|verb| *verb == "delete");
    let patched = verbs.iter().position(|verb| *verb == "patch");
    let in_order = deleted
        .zip(patched)
        .is_some_and(|(last, first)| last < first);
    ensure!(in_order, "{verbs:?}");
    Ok(())
}

/// The pod of the Job passes the Pod Security Standard that the namespace enforces.
#[tokio::test]
async fn the_job_runs_where_it_is_installed() -> Result<()> {
    let stage = Stage::new("job").await?;
    let job = [
        "get",
        "pods",
        "-n",
        "volume-warden",
        "-l",
        "app.kubernetes.io/name=volume-warden-drain",
        "-o",
        "name",
    ];
    eventually("the Job has a pod", async || {
        let pods = stage.space.cluster.kubectl(&job).await?;
        ensure!(pods.contains("pod/volume-warden-drain"), "{pods}");
        Ok(())
    })
    .await
}
