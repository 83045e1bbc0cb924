//! The creator of a pod gets a warning about errors at once.

use super::posted::{asked, reviewed};
use crate::{
    pvc_provisioner::support::{Askers, TEMPLATE, annotations, asking},
    support::guarded,
};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

/// An Event on the pod has the same text, and the pod is created nevertheless.
#[tokio::test]
async fn users_are_warned_at_once() -> Result<()> {
    let askers = Askers::new(guarded().await?, "warned").await?;
    let unknown = TEMPLATE.replace("requests", "request");
    let invalid = TEMPLATE.replace("ReadWriteOnce", "Anything");
    let binding = TEMPLATE.replace("spec:", "spec:\n  volumeName: other");
    for (change, reason, part) in [
        (
            ("data.pvc", Some("a: [")),
            "ErrInvalidPVC",
            "template of volume \"data\" cannot be used: line 1",
        ),
        (
            ("data.pvc", Some(&*binding)),
            "ErrInvalidPVC",
            "spec.volumeName is accepted only with --template-fields=volumeName",
        ),
        (
            ("data.pvc", None),
            "ErrMissingPVC",
            "data.pvc\" with its template is missing",
        ),
        (
            ("data.enabled", Some("yes")),
            "ErrInvalidAnnotation",
            "neither true nor false",
        ),
        (
            ("datta.enabled", Some("true")),
            "ErrMissingVolume",
            "no volume of that name",
        ),
        (
            ("data.enabeld", Some("true")),
            "ErrInvalidAnnotation",
            "data.enabeld\" is unknown",
        ),
        (
            ("data.pvc", Some(&*unknown)),
            "ErrPVCProvisionFailed",
            "unknown field \"spec.resources.request\"",
        ),
        (
            ("data.pvc", Some(&*invalid)),
            "ErrPVCProvisionFailed",
            "spec.accessModes",
        ),
    ] {
        let posted = asked(&askers, annotations(&[change]), "").await?;
        ensure!(posted.code == 201 && posted.says(part), "{posted:?}");
        ensure!(posted.warnings.len() == 1, "{posted:?}");
        let pod: Pod = posted.object()?;
        askers.has_event(&pod.name_any(), reason, part).await?;
    }
    Ok(())
}

/// kubectl shows the warning; `--warnings-as-errors` makes kubectl fail on it here.
#[tokio::test]
async fn kubectl_shows_the_warning() -> Result<()> {
    let cluster = guarded().await?;
    let askers = Askers::new(cluster.clone(), "kubectl").await?;
    let shown = reviewed(&askers, async |name| {
        let mut pod = json!(asking(name, name, annotations(&[("data.pvc", None)]))?);
        json_patch::merge(&mut pod, &json!({"apiVersion": "v1", "kind": "Pod"}));
        let create = [
            "create",
            "--warnings-as-errors",
            "-n",
            &askers.space.name,
            "-f",
            "-",
        ];
        let created = cluster.kubectl_with_stdin(&create, &pod.to_string()).await;
        let error = created.err();
        Ok(error.map_or_else(String::new, |error| format!("{error:#}")))
    })
    .await?;
    ensure!(
        shown.contains("Warning: a claim is requested for volume \"data\""),
        "{shown}"
    );
    Ok(())
}

/// DP-18 at admission: a pod created while its predecessor's claim is being deleted gets a warning
/// with the reason why it waits.
#[tokio::test]
async fn a_claim_that_is_being_deleted_is_reported_at_once() -> Result<()> {
    let askers = Askers::new(guarded().await?, "too-soon").await?;
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let posted = reviewed(&askers, async |name| {
        askers.create_claim(name, held.clone()).await?;
        askers.space.delete_claim(name).await?;
        // The watch of Volume Warden has delivered the deletion, too.
        askers.settled().await?;
        let pod = asking(name, name, json!({}))?;
        super::posted::post(&askers.space, &pod, "").await
    })
    .await?;
    ensure!(
        posted.code == 201 && posted.says("to be deleted"),
        "{posted:?}"
    );
    let pod: Pod = posted.object()?;
    let name = pod.name_any();
    let free = json!({"metadata": {"finalizers": null}});
    askers.space.patch_claim(&name, free).await?;
    askers.belongs(&name, &pod).await.map(drop)
}
