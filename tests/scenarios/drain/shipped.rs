//! The shipped Job and its permissions.

use super::support::DrainFixture;
use anyhow::{Result, ensure};
use volume_warden_controlplane::{Calls, eventually};

/// The arguments of the container of the shipped Job.
pub async fn job_arguments(drain_fixture: &DrainFixture) -> Result<Vec<String>> {
    let path = "jsonpath={.spec.template.spec.containers[0].args[*]}";
    let get_job = [
        "get",
        "job",
        "volume-warden-drain",
        "-n",
        "volume-warden",
        "-o",
        path,
    ];
    let arguments = drain_fixture.space.cluster.kubectl(&get_job).await?;
    let mut arguments = arguments.split_whitespace().map(str::to_owned);
    ensure!(
        arguments.next().as_deref() == Some("drain"),
        "{arguments:?}"
    );
    Ok(arguments.collect())
}

/// Checks that the webhook configurations were deleted before any object was patched, and that no
/// request was forbidden.
pub fn deletes_webhooks_first(calls: &Calls) -> Result<()> {
    let forbidden: Vec<_> = calls.iter().filter(|call| call.code == 403).collect();
    ensure!(forbidden.is_empty(), "{forbidden:?}");
    let writes = calls.writes();
    let verbs: Vec<_> = writes.iter().map(|call| call.verb.as_str()).collect();
    let last_delete = verbs.iter().rposition(|verb| *verb == "delete");
    let first_patch = verbs.iter().position(|verb| *verb == "patch");
    let in_order = last_delete
        .zip(first_patch)
        .is_some_and(|(last, first)| last < first);
    ensure!(in_order, "{verbs:?}");
    Ok(())
}

/// The pod of the Job passes the Pod Security Standard that the namespace enforces.
#[tokio::test]
async fn the_namespace_admits_the_pod_of_the_job() -> Result<()> {
    let drain_fixture = DrainFixture::new("job").await?;
    let get_pods = [
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
        let pods = drain_fixture.space.cluster.kubectl(&get_pods).await?;
        ensure!(pods.contains("pod/volume-warden-drain"), "{pods}");
        Ok(())
    })
    .await
}
