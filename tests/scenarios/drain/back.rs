//! A drain before Kubernetes' own controllers replace Volume Warden.

use super::support::{CLAIM_FINALIZER, run_drain};
use crate::support::{BINARY, Space, in_tree};
use anyhow::{Result, ensure};
use tokio::process::Command;

/// A drain with `--in-tree=on` leaves the finalizers. When a claim is deleted, Kubernetes' own
/// controllers remove its finalizer.
#[tokio::test]
async fn finalizers_are_left_to_kubernetes_own_controllers() -> Result<()> {
    let cluster = in_tree().await?;
    let space = Space::new(cluster.clone(), "back").await?;
    space.create_claim("data").await?;
    space.claim_is_protected("data").await?;
    // The cluster is shared, so only this namespace is drained, with a Lease in this namespace.
    let flags = [
        "--in-tree=on",
        "--components=pvc-protection,pv-protection",
        "--namespace",
        &space.name,
        "--leader-elect-resource-namespace",
        &space.name,
    ];
    let mut drain = Command::new(BINARY);
    drain
        .arg("drain")
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig())
        .args(flags)
        .kill_on_drop(true);
    let audit = cluster.audit();
    let mark = audit.mark()?;
    let drained = run_drain(drain).await?;
    ensure!(drained.code == Some(0), "{drained:?}");
    assert_eq!(space.finalizers("data").await?, [CLAIM_FINALIZER]);
    space.delete_claim("data").await?;
    space.claim_is_gone("data").await?;
    // The controllers would add a finalizer again that the drain had removed, so the state of the
    // claim does not show whether the drain wrote it. The audit log does.
    let calls = audit.since(mark)?.by_user_agent("volume-warden/").writes();
    let writes = |resource: &str| {
        let in_space = calls.iter().filter(|call| call.namespace == space.name);
        in_space.filter(|call| call.resource == resource).count()
    };
    ensure!(writes("leases") > 0, "the log has no drain: {calls:?}");
    ensure!(writes("persistentvolumeclaims") == 0, "{calls:?}");
    Ok(())
}
