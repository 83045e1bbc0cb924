//! Volume Warden beside kube-controller-manager 1.37, which writes the condition itself.

use super::Fixture;
use crate::support::{BINARY, Running, Space, repository};
use anyhow::{Result, ensure};
use serde_json::Value;
use std::sync::Arc;
use volume_warden_controlplane::{Cluster, Component, Kubernetes, Warden, eventually};

impl Fixture {
    /// Returns the field managers that own the status of the claim's condition.
    async fn writers(&self, claim: &str) -> Result<Vec<String>> {
        let metadata = self.0.claims.get(claim).await?.metadata;
        let managers = metadata.managed_fields.into_iter().flatten();
        let owns = |fields: &Value| {
            let field = r#"/f:status/f:conditions/k:{"type":"Unused"}/f:status"#;
            fields.pointer(field).is_some()
        };
        let owners =
            managers.filter(|each| each.fields_v1.as_ref().is_some_and(|all| owns(&all.0)));
        Ok(owners.filter_map(|each| each.manager).collect())
    }
}

/// Volume Warden leaves the condition to kube-controller-manager, replaces it a minute after it has
/// stopped, and both agree when it is back.
#[tokio::test]
#[ignore = "builds Kubernetes 1.37"]
async fn kube_controller_manager_and_volume_warden_replace_each_other() -> Result<()> {
    let cluster = Cluster::in_tree().kubernetes(Kubernetes::V1_37);
    let cluster = cluster.name("handover").start().await?;
    let manifests = repository().join("manifests");
    cluster.apply_kustomization(&manifests).await?;
    let warden = Warden::builder(&cluster, BINARY).serving().start().await?;
    let running = Arc::new(Running::with(cluster, warden));
    let fixture = Fixture(Space::new(running, "handover").await?);
    fixture.bind("data").await?;
    fixture.bind("other").await?;
    let space = &fixture.0;
    for round in ["a", "b", "c"] {
        space.create_running_pod(round, "data").await?;
        fixture.has_status("data", "False").await?;
        space.delete_pod(round).await?;
        fixture.has_status("data", "True").await?;
    }
    is_written_by(&fixture, "kube-controller-manager").await?;

    space.cluster.kill(Component::ControllerManager)?;
    space.create_running_pod("web", "data").await?;
    is_written_by(&fixture, "volume-warden").await?;
    fixture.has_status("data", "False").await?;
    space.create_running_pod("web-2", "other").await?;
    fixture.has_status("other", "False").await?;

    space.cluster.restart(Component::ControllerManager).await?;
    for (pod, claim) in [("web", "data"), ("web-2", "other")] {
        space.delete_pod(pod).await?;
        fixture.has_status(claim, "True").await?;
    }
    Ok(())
}

/// Waits until this manager alone owns the condition of `data`.
async fn is_written_by(fixture: &Fixture, manager: &str) -> Result<()> {
    eventually("the manager writes the condition", async || {
        let writers = fixture.writers("data").await?;
        ensure!(writers == [manager], "{writers:?}");
        anyhow::Ok(())
    })
    .await
}
