//! Which volumes the trash is enabled for, and when.

use super::support::{TRASH, TrashSpace, WINDOW, WINDOW_MAX, phase_of, policy_of, record};
use crate::support::{BINARY, guarded, quiet};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use volume_warden_controlplane::{Warden, WardenBuilder, eventually};

#[tokio::test]
async fn a_volume_is_created_with_the_policy_retain() -> Result<()> {
    let trash_space = TrashSpace::new(guarded().await?, "trash-birth", "72h").await?;
    let volume = trash_space.bound("data", json!({})).await?;
    trash_space.is_enabled(&volume.name_any()).await?;
    for version in trash_space.versions.all().await? {
        ensure!(
            policy_of(&version) == "Retain" && record(&version).is_ok(),
            "{version:?}"
        );
    }
    let record = record(&volume)?;
    assert_eq!(
        (&record["policy"], &record["windowSeconds"]),
        (&json!("Delete"), &json!(259_200))
    );
    Ok(())
}

/// A Volume Warden with the component pvc-trash only. Its Lease has the name of the namespace, so
/// that it does not wait until the Lease of an earlier scenario expires.
pub fn warden(trash_space: &TrashSpace) -> WardenBuilder<'_> {
    let (name, cluster) = (&trash_space.space.name, &trash_space.space.cluster);
    let builder = Warden::builder(cluster, BINARY).name(name.clone());
    let builder = builder.arg(format!("--leader-elect-resource-name={name}"));
    builder.arg("--components=pvc-trash")
}

/// The volume is created while no Volume Warden runs, so it has the policy Delete at first.
#[tokio::test]
async fn a_volume_that_admission_missed_is_enabled_while_bound() -> Result<()> {
    let (cluster, _exclusive) = quiet().await?;
    let trash_space = TrashSpace::with_class(cluster.clone(), "trash-late", json!({})).await?;
    let volume = trash_space.bound("data", json!({})).await?;
    ensure!(policy_of(&volume) == "Delete");
    let _warden = warden(&trash_space).start().await?;
    trash_space.set_window(Some("1h")).await?;
    let volume = trash_space.is_enabled(&volume.name_any()).await?;
    let finalizers = record(&volume)?["finalizers"].clone();
    let volume = trash_space.delete("data", &volume).await?;
    ensure!(
        volume
            .finalizers()
            .iter()
            .all(|each| !finalizers.to_string().contains(each.as_str()))
    );
    trash_space.nothing_was_at_risk().await
}

/// Volumes for which the trash was enabled before stay in the trash.
#[tokio::test]
async fn a_full_trash_is_not_enabled_for_new_volumes() -> Result<()> {
    let (cluster, _exclusive) = quiet().await?;
    let trash_space = TrashSpace::new(cluster.clone(), "trash-full", "1h").await?;
    let builder = warden(&trash_space).arg("--trash-max-bytes=1Gi");
    let _warden = builder.start().await?;
    let kept = trash_space.deleted("kept", "kept").await?;
    let new = trash_space.bound("new", json!({})).await?.name_any();
    eventually("an Event reports that the trash is full", async || {
        let events = trash_space.space.events_with("TrashFull").await?;
        ensure!(!events.is_empty());
        anyhow::Ok(())
    })
    .await?;
    let new = trash_space.space.volumes.get(&new).await?;
    ensure!(policy_of(&new) == "Delete" && !new.annotations().contains_key(TRASH));
    trash_space.is_in_trash(&kept.name_any()).await?;
    trash_space.nothing_was_at_risk().await
}

#[tokio::test]
async fn a_claim_opts_out_and_a_class_disables_the_trash() -> Result<()> {
    let trash_space = TrashSpace::new(guarded().await?, "trash-off", "1h").await?;
    let opted_out = json!({"metadata": {"annotations": {WINDOW: "0"}}});
    let out = trash_space.bound("out", opted_out).await?;
    let shorter = json!({"metadata": {"annotations": {WINDOW: "10m"}}});
    let shorter = trash_space.bound("shorter", shorter).await?.name_any();
    let volume = trash_space.is_enabled(&shorter).await?;
    assert_eq!(record(&volume)?["windowSeconds"], 600);
    ensure!(policy_of(&out) == "Delete" && !out.annotations().contains_key(TRASH));

    trash_space.set_window(Some("off")).await?;
    eventually("the trash is disabled", async || {
        let volume = trash_space.space.volumes.get(&shorter).await?;
        ensure!(policy_of(&volume) == "Delete" && phase_of(&volume) == "Bound");
        ensure!(!volume.annotations().contains_key(TRASH));
        anyhow::Ok(())
    })
    .await
}

/// The class permits a window of two hours at most.
#[tokio::test]
async fn a_namespace_lengthens_the_window() -> Result<()> {
    let annotations = json!({WINDOW: "1h", WINDOW_MAX: "2h"});
    let class = json!({"metadata": {"annotations": annotations}});
    let trash_space = TrashSpace::with_class(guarded().await?, "trash-longer", class).await?;
    let shorter = json!({"metadata": {"annotations": {WINDOW: "90m"}}});
    let plain = trash_space.bound("plain", json!({})).await?.name_any();
    let shorter = trash_space.bound("shorter", shorter).await?.name_any();
    let opted_out = json!({"metadata": {"annotations": {WINDOW: "0"}}});
    let out = trash_space.bound("out", opted_out).await?.name_any();
    let namespaces: Api<Namespace> = Api::all(trash_space.space.cluster.client());
    for (window, expected) in [
        (json!("9h"), [7200, 5400]),
        (json!("110m"), [6600, 5400]),
        (json!("0"), [3600, 3600]),
        (json!(null), [3600, 3600]),
    ] {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {WINDOW: window}}}));
        let name = &trash_space.space.name;
        namespaces
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        eventually("the windows are recorded", async || {
            for (volume, seconds) in [&plain, &shorter].into_iter().zip(expected) {
                let record = record(&trash_space.space.volumes.get(volume).await?)?;
                ensure!(record["windowSeconds"] == seconds, "{window}: {record}");
            }
            anyhow::Ok(())
        })
        .await?;
    }
    let out = trash_space.space.volumes.get(&out).await?;
    ensure!(policy_of(&out) == "Delete" && !out.annotations().contains_key(TRASH));
    Ok(())
}
