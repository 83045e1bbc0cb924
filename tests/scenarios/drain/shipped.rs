//! The shipped Job and its rights.

use super::support::Stage;
use anyhow::{Result, ensure};
use std::collections::BTreeSet;
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

/// The webhooks were gone before anything else was written; every right that is shipped was used, and no other asked for.
pub fn in_order_and_by_right(calls: &Calls) -> Result<()> {
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
    let used: BTreeSet<_> = calls
        .iter()
        .map(|call| format!("{} {}", call.verb, call.resource))
        .collect();
    let shipped = [
        "create leases",
        "delete mutatingwebhookconfigurations",
        "delete validatingwebhookconfigurations",
        "get leases",
        "get mutatingwebhookconfigurations",
        "get validatingwebhookconfigurations",
        "list leases",
        "list persistentvolumeclaims",
        "list persistentvolumes",
        "list pods",
        "list statefulsets",
        "patch persistentvolumeclaims",
        "patch persistentvolumes",
        "update leases",
    ];
    let missing: Vec<_> = used
        .iter()
        .filter(|each| !shipped.contains(&each.as_str()))
        .collect();
    // The Lease was there already.
    let unused: Vec<_> = shipped
        .iter()
        .filter(|each| !used.contains(**each) && **each != "create leases")
        .collect();
    ensure!(
        missing.is_empty() && unused.is_empty(),
        "{missing:?} {unused:?}"
    );
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
