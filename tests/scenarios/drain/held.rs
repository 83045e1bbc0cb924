//! A drain is refused while a Volume Warden runs, which would write again what the drain removes.

use super::support::{CLAIM_FINALIZER, DrainFixture, run_drain};
use crate::support::{BINARY, lease_holder};
use anyhow::{Result, bail, ensure};
use futures::future::join;
use serde_json::json;
use std::time::Duration;
use volume_warden_controlplane::{DEFAULT_TIMEOUT, Interposer, Rule, Seen, Warden, eventually};

/// How long a replica that does not lead waits between two attempts to acquire the Lease.
const FOLLOW_PERIOD: Duration = Duration::from_millis(1500);

/// The name of the Lease does not matter. Components that the running Volume Warden does not have
/// can be drained.
#[tokio::test]
async fn a_drain_is_refused_while_a_volume_warden_runs() -> Result<()> {
    let drain_fixture = DrainFixture::new("held").await?;
    let space = &drain_fixture.space;
    let warden = Warden::builder(&space.cluster, BINARY)
        .arg("--components=pv-releaser")
        .arg("--leader-elect-resource-name=of-its-own");
    let warden = warden.start().await?;
    eventually("Volume Warden leads", async || {
        anyhow::Ok(!lease_holder(&space.cluster, "of-its-own").await?.is_empty())
    })
    .await?;
    drain_fixture.create_claim("data", json!({})).await?;
    let refused = drain_fixture.drain(&["--in-tree=off"]).await?;
    refused.failed("volume-warden: the Lease volume-warden/of-its-own is held by ")?;
    assert_eq!(drain_fixture.writes()?, [""; 0]);
    ensure!(
        !drain_fixture.configurations().await?.is_empty(),
        "the running Volume Warden needs its webhooks"
    );
    // The running Volume Warden does not handle other components.
    let others = drain_fixture
        .drain(&["--in-tree=off", "--components=pvc-protection"])
        .await?;
    others.left_nothing()?;
    assert_eq!(space.finalizers("data").await?, [""; 0]);
    let left = drain_fixture.configurations().await?;
    ensure!(
        left.len() == 8 && left.iter().all(|name| !name.contains("pvc-protection")),
        "{left:?}"
    );
    warden.stop().await?;
    drain_fixture
        .drain(&["--in-tree=off"])
        .await?
        .left_nothing()?;
    assert_eq!(drain_fixture.configurations().await?, [""; 0]);
    Ok(())
}

/// A follower acquires the Lease that the leader has released, although a drain begins at the same
/// moment: the drain first waits longer than the period of a follower.
#[tokio::test]
async fn a_follower_acquires_a_released_lease_before_a_drain() -> Result<()> {
    // The drain waits only a second longer than the follower, so on a busy machine it may acquire
    // the Lease first. A drain that does not wait always acquires it first.
    for _ in 0..3 {
        let drain_fixture = DrainFixture::new("replica").await?;
        if follower_acquires_first(&drain_fixture).await? {
            return Ok(());
        }
    }
    bail!("the drain acquires the Lease before the follower")
}

/// Returns false if the drain acquired the Lease before the follower.
async fn follower_acquires_first(drain_fixture: &DrainFixture) -> Result<bool> {
    let cluster = &drain_fixture.space.cluster;
    let replica = |name: &str| {
        Warden::builder(cluster, BINARY)
            .name(name)
            .arg("--components=pv-releaser")
            .arg("--leader-elect-resource-name=of-two")
            .arg(format!("--leader-elect-identity={name}"))
    };
    let leader = replica("leader").start().await?;
    eventually("the leader leads", async || {
        anyhow::Ok(lease_holder(cluster, "of-two").await? == "leader")
    })
    .await?;
    let interposer =
        Interposer::for_service_account(cluster, "volume-warden", "volume-warden").await?;
    let follower = replica("follower").kubeconfig(interposer.kubeconfig());
    let follower = follower.start().await?;
    let lease_reads = || Rule::on("GET").path_contains("/leases/of-two");
    let held = interposer.add(lease_reads().hold());
    let _delayed = interposer.add(lease_reads().delay(FOLLOW_PERIOD));
    held.held(1).await?;
    leader.process().terminate()?;
    eventually("the leader releases the Lease", async || {
        anyhow::Ok(lease_holder(cluster, "of-two").await? != "leader")
    })
    .await?;
    let release_reads = async {
        let lists = |seen: &[Seen]| seen.iter().any(|each| each.path.ends_with("/leases"));
        drain_fixture
            .interposer
            .wait_for(lists, DEFAULT_TIMEOUT)
            .await?;
        held.release();
        anyhow::Ok(())
    };
    let (refused, released) = join(drain_fixture.drain(&["--in-tree=off"]), release_reads).await;
    let refused = refused?;
    released?;
    follower.stop().await?;
    if refused.code == Some(0) {
        return Ok(false);
    }
    refused.failed("the Lease volume-warden/of-two is held by follower")?;
    assert_eq!(drain_fixture.writes()?, [""; 0]);
    Ok(true)
}

/// A replica that starts during the drain waits for the same Lease, and leads once the drain has
/// released it: it would write everything again.
#[tokio::test]
async fn a_drain_fails_if_a_replica_waits_for_its_lease() -> Result<()> {
    let drain_fixture = DrainFixture::new("waiting").await?;
    drain_fixture.create_claim("data", json!({})).await?;
    let writes = Rule::on("PATCH").path_contains("/persistentvolumeclaims/");
    let held = drain_fixture.interposer.add(writes.hold());
    let start_replica = async {
        held.held(1).await?;
        let replica = Warden::builder(&drain_fixture.space.cluster, BINARY)
            .arg("--components=pv-releaser")
            .arg("--leader-elect-resource-name=volume-warden");
        let replica = replica.start().await?;
        held.release();
        anyhow::Ok(replica)
    };
    let (drained, replica) = join(drain_fixture.drain(&["--in-tree=off"]), start_replica).await;
    replica?.stop().await?;
    drained?.failed(
        "another Volume Warden started during the drain: the Lease volume-warden/volume-warden is \
         held by",
    )
}

/// A drain reports the Lease of an installation in another namespace, and does not acquire it. In a
/// namespace without an installation, a Lease with the labels of Volume Warden does not count: a
/// user with permissions in that namespace may have created it.
#[tokio::test]
async fn an_installation_in_another_namespace_prevents_a_drain() -> Result<()> {
    let drain_fixture = DrainFixture::new("elsewhere").await?;
    let space = &drain_fixture.space;
    let lease = |holder: &str| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "there", "namespace": space.name, "labels": {
                "app.kubernetes.io/part-of": "volume-warden", "volume-warden.dev/pvc-provisioner": "",
            }},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
        })
    };
    drain_fixture.create_claim("data", json!({})).await?;
    let apply = ["apply", "-f", "-"];
    let cluster = &space.cluster;
    let binding = format!("volume-warden-{}", space.name);
    let account = format!("--serviceaccount={}:default", space.name);
    let bind = [
        "create",
        "clusterrolebinding",
        &binding,
        "--clusterrole=view",
        &account,
    ];
    cluster.kubectl(&bind).await?;
    let part_of = "app.kubernetes.io/part-of=volume-warden";
    cluster
        .kubectl(&["label", "clusterrolebinding", &binding, part_of])
        .await?;
    cluster
        .kubectl_with_stdin(&apply, &lease("another").to_string())
        .await?;
    let refused = drain_fixture.drain(&["--in-tree=off"]).await?;
    refused.failed(&format!(
        "the Lease {}/there is held by another",
        space.name
    ))?;
    assert_eq!(space.finalizers("data").await?, [CLAIM_FINALIZER]);
    // A Volume Warden that has ended leaves its Lease without a holder.
    cluster
        .kubectl_with_stdin(&apply, &lease("").to_string())
        .await?;
    let refused = drain_fixture.drain(&["--in-tree=off"]).await?;
    refused.failed(&format!("--system-namespace={}", space.name))?;
    assert_eq!(space.finalizers("data").await?, [CLAIM_FINALIZER]);
    cluster
        .kubectl_with_stdin(&apply, &lease("forger").to_string())
        .await?;
    cluster
        .kubectl(&["delete", "clusterrolebinding", &binding])
        .await?;
    let mut logging = drain_fixture.command(&["--in-tree=off"]);
    logging.env("RUST_LOG", "volume_warden=warn");
    let drained = run_drain(logging).await?;
    let ignored = format!("lease=\"{}/there\"", space.name);
    ensure!(drained.stderr.contains(&ignored), "{drained:?}");
    assert_eq!(drained.code, Some(0));
    cluster
        .kubectl(&["delete", "lease", "there", "-n", &space.name])
        .await?;
    assert_eq!(space.finalizers("data").await?, [""; 0]);
    Ok(())
}
