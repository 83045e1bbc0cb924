//! What `kubectl replace` with the manifests of version 0.1.0 keeps, and the upgrade page deletes.

use crate::{documentation::pages::commands, support::repository};
use anyhow::{Result, ensure};
use std::collections::BTreeSet;
use volume_warden_controlplane::Cluster;

/// What admission of an API server reads, and the NetworkPolicy.
const KINDS: &str = "mutatingwebhookconfigurations,validatingwebhookconfigurations,\
    validatingadmissionpolicies,validatingadmissionpolicybindings,networkpolicies";

/// The commands in the code blocks of the page that delete objects.
pub fn deletions() -> Vec<String> {
    let page = repository().join("docs/install/upgrade.md");
    let mut shown = commands("kubectl delete ");
    shown.retain(|each| each.page == page && each.in_block);
    shown.into_iter().map(|each| each.command).collect()
}

/// Runs the commands of the page.
pub async fn delete(cluster: &Cluster) -> Result<()> {
    let commands = deletions();
    ensure!(commands.len() > 3, "{commands:?}");
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').skip(1).collect();
        cluster.kubectl(&arguments).await?;
    }
    Ok(())
}

/// The names of the objects of these kinds that belong to Volume Warden.
pub async fn installed(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let label = "app.kubernetes.io/name=volume-warden";
    let get = ["get", KINDS, "-A", "-o", "name", "-l", label];
    let names = cluster.kubectl(&get).await?;
    Ok(names.lines().map(str::to_owned).collect())
}
