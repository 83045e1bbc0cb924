//! Back to Kubernetes' own controllers.

use super::support::{CLAIM_FINALIZER, drained};
use crate::support::{BINARY, Space, in_tree};
use anyhow::{Result, ensure};
use tokio::process::Command;

/// Kubernetes' controllers remove the remaining finalizers in due course.
#[tokio::test]
async fn back_in_tree_finalizers_stay_and_are_looked_after() -> Result<()> {
    let cluster = in_tree().await?;
    let space = Space::new(cluster.clone(), "back").await?;
    space.create_claim("data").await?;
    space.claim_is_protected("data").await?;
    // Of this scenario alone: the cluster is shared.
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
    let drained = drained(drain).await?;
    ensure!(drained.code == Some(0), "{drained:?}");
    assert_eq!(space.finalizers("data").await?, [CLAIM_FINALIZER]);
    space.delete_claim("data").await?;
    space.claim_is_gone("data").await
}
