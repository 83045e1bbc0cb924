//! The MutatingAdmissionPolicy with which the API server enables the trash for new volumes while no
//! Volume Warden runs.

use super::support::{TRASH, TrashSpace, file, phase_of, policy_of, record, uid_of_claim};
use crate::support::{BINARY, manifests, repository, shared::Shared, volume, webhook_timeouts};
use anyhow::{Result, ensure};
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use std::{fs, sync::Arc};
use volume_warden_controlplane::{Cluster, Kubernetes, Warden, eventually};

/// Kubernetes 1.34 serves these policies as a beta version that is off by default.
const BETA: [&str; 2] = [
    "--feature-gates=MutatingAdmissionPolicy=true",
    "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
];

/// Starts a cluster with the manifests and the policy, and without a running Volume Warden.
async fn start() -> Result<Shared> {
    let file = repository().join("manifests/components/pvc-trash-admission-policy/policy.yaml");
    let mut policy = fs::read_to_string(file)?;
    let mut cluster = Cluster::without_in_tree().name("admission-policy");
    if matches!(Kubernetes::chosen()?, Kubernetes::V1_34) {
        cluster = BETA
            .into_iter()
            .fold(cluster, |cluster, argument| cluster.apiserver_arg(argument));
        let version = "admissionregistration.k8s.io/v1";
        policy = policy.replace(version, &format!("{version}beta1"));
    }
    let cluster = cluster.start().await?;
    manifests::apply(&cluster, &repository().join("manifests")).await?;
    cluster
        .kubectl_with_stdin(&["apply", "-f", "-"], &policy)
        .await?;
    Ok(Arc::new(cluster.into()))
}

/// A volume of the class as a provisioner creates it.
fn provisioned(
    trash_space: &TrashSpace,
    name: &str,
    changes: Value,
) -> Result<k8s_openapi::api::core::v1::PersistentVolume> {
    let mut all = json!({
        "metadata": {"finalizers": ["external-provisioner.volume.kubernetes.io/finalizer",
            "kubernetes.io/pv-protection", "external-attacher/example"]},
        "spec": {"storageClassName": trash_space.space.name, "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {"namespace": trash_space.space.name, "name": "data", "uid": "1"}},
    });
    json_patch::merge(&mut all, &changes);
    volume(&format!("{}-{name}", trash_space.space.name), all)
}

/// Whether the API server would store the volume with a record. Fails unless such a volume has the
/// policy Retain, and one without a record the policy Delete.
async fn is_enabled_at_creation(trash_space: &TrashSpace, changes: Value) -> Result<bool> {
    let wanted = provisioned(trash_space, "probe", changes)?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let stored = trash_space.space.volumes.create(&dry_run, &wanted).await?;
    let recorded = stored.annotations().contains_key(TRASH);
    ensure!(recorded == (policy_of(&stored) == "Retain"), "{stored:?}");
    Ok(recorded)
}

#[tokio::test]
async fn a_volume_is_kept_that_was_created_and_released_while_no_volume_warden_ran() -> Result<()> {
    let cluster = start().await?;
    let trash_space = TrashSpace::new(cluster.clone(), "born", "1h30m").await?;
    let unset = TrashSpace::new(cluster.clone(), "born-unset", "off").await?;
    let unreadable = TrashSpace::new(cluster.clone(), "born-unreadable", "soon").await?;
    eventually("the policy is applied", async || {
        ensure!(is_enabled_at_creation(&trash_space, json!({})).await?);
        anyhow::Ok(())
    })
    .await?;
    let quoted = json!({"spec": {"claimRef": {"uid": "1\",\"x\":\""}}});
    for changes in [
        json!({"spec": {"claimRef": null}}),
        json!({"spec": {"claimRef": {"uid": null}}}),
        quoted,
    ] {
        ensure!(
            !is_enabled_at_creation(&trash_space, changes.clone()).await?,
            "{changes}"
        );
    }
    for other in [&unset, &unreadable] {
        ensure!(!is_enabled_at_creation(other, json!({})).await?);
    }
    let wanted = provisioned(&trash_space, "record", json!({}))?;
    let stored = trash_space
        .space
        .volumes
        .create(&PostParams::default(), &wanted)
        .await?;
    assert_eq!(
        record(&stored)?,
        json!({"policy": "Delete", "windowSeconds": 5400,
            "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"],
            "claim": {"namespace": trash_space.space.name, "name": "data", "uid": "1"}})
    );

    let bound = trash_space.bound("bound", json!({})).await?;
    let deleted = trash_space.bound("deleted", json!({})).await?;
    fs::write(file(&deleted)?, "kept")?;
    trash_space
        .space
        .claims
        .delete("deleted", &DeleteParams::default())
        .await?;
    let name = deleted.name_any();
    eventually("the volume is Released", async || {
        let found = trash_space.space.volumes.get(&name).await?;
        ensure!(phase_of(&found) == "Released" && policy_of(&found) == "Retain");
        anyhow::Ok(())
    })
    .await?;
    webhook_timeouts::raise_webhook_timeouts(&cluster, None).await?;
    let _warden = Warden::builder(&cluster, BINARY).serving().start().await?;
    let kept = trash_space.is_in_trash(&name).await?;
    assert_eq!(fs::read_to_string(file(&kept)?)?, "kept");
    let completed = trash_space.is_enabled(&bound.name_any()).await?;
    assert_eq!(
        record(&completed)?["claim"]["uid"],
        uid_of_claim(&completed)
    );
    trash_space.nothing_was_at_risk().await
}
