//! The objects that version 0.1.0 does not have. `kubectl replace` with the manifests of 0.1.0
//! keeps them, and commands of the upgrade page delete them.

use crate::{documentation::pages::commands, support::repository};
use anyhow::{Result, ensure};
use std::collections::BTreeSet;
use volume_warden_controlplane::Cluster;

/// The kinds that configure admission, and NetworkPolicies.
const KINDS: &str = "mutatingwebhookconfigurations,validatingwebhookconfigurations,\
    validatingadmissionpolicies,validatingadmissionpolicybindings,networkpolicies";

/// The commands in the code blocks of the page that delete objects.
pub fn deletion_commands() -> Vec<String> {
    let page = repository().join("docs/install/upgrade.md");
    let mut shown = commands("kubectl delete ");
    shown.retain(|each| each.page == page && each.in_block);
    shown.into_iter().map(|each| each.command).collect()
}

/// Runs the commands of the page that delete objects.
pub async fn delete_newer_objects(cluster: &Cluster) -> Result<()> {
    let commands = deletion_commands();
    ensure!(commands.len() > 3, "{commands:?}");
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').skip(1).collect();
        cluster.kubectl(&arguments).await?;
    }
    Ok(())
}

/// The names of the objects of these kinds that belong to Volume Warden.
pub async fn installed_objects(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let label = "app.kubernetes.io/name=volume-warden";
    let get = ["get", KINDS, "-A", "-o", "name", "-l", label];
    let names = cluster.kubectl(&get).await?;
    Ok(names.lines().map(str::to_owned).collect())
}
