//! The response to the POST of a pod has warnings about errors.

use super::posted::{post, post_requesting_pod, until_reviewed};
use crate::{
    pvc_provisioner::support::{PodSpace, TEMPLATE, annotations, requesting_pod},
    support::guarded,
};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

/// A pod with an error in its annotations or template is created, the response has a warning, and
/// an Event on the pod has the same text.
#[tokio::test]
async fn users_are_warned_at_once() -> Result<()> {
    let pod_space = PodSpace::new(guarded().await?, "warned").await?;
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
        let response = post_requesting_pod(&pod_space, annotations(&[change]), "").await?;
        ensure!(
            response.code == 201 && response.has_warning(part),
            "{response:?}"
        );
        ensure!(response.warnings.len() == 1, "{response:?}");
        let pod: Pod = response.object()?;
        pod_space.has_event(&pod.name_any(), reason, part).await?;
    }
    Ok(())
}

/// kubectl shows the warning. With `--warnings-as-errors` kubectl fails, so the warning is in its
/// error.
#[tokio::test]
async fn kubectl_shows_the_warning() -> Result<()> {
    let cluster = guarded().await?;
    let pod_space = PodSpace::new(cluster.clone(), "kubectl").await?;
    let error = until_reviewed(&pod_space, async |name| {
        let mut pod = json!(requesting_pod(
            name,
            name,
            annotations(&[("data.pvc", None)])
        )?);
        json_patch::merge(&mut pod, &json!({"apiVersion": "v1", "kind": "Pod"}));
        let create = [
            "create",
            "--warnings-as-errors",
            "-n",
            &pod_space.space.name,
            "-f",
            "-",
        ];
        let created = cluster.kubectl_with_stdin(&create, &pod.to_string()).await;
        let error = created.err();
        Ok(error.map_or_else(String::new, |error| format!("{error:#}")))
    })
    .await?;
    ensure!(
        error.contains("Warning: a claim is requested for volume \"data\""),
        "{error}"
    );
    Ok(())
}

/// DP-18 at admission: a pod that is created while the claim it requests is being deleted gets a
/// warning that it waits for the deletion.
#[tokio::test]
async fn a_claim_that_is_being_deleted_is_reported_at_once() -> Result<()> {
    let pod_space = PodSpace::new(guarded().await?, "too-soon").await?;
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let response = until_reviewed(&pod_space, async |name| {
        pod_space.create_claim(name, held.clone()).await?;
        pod_space.space.delete_claim(name).await?;
        // Afterwards the watch of Volume Warden has delivered the deletion.
        pod_space.wait_until_processed().await?;
        let pod = requesting_pod(name, name, json!({}))?;
        post(&pod_space.space, &pod, "").await
    })
    .await?;
    ensure!(
        response.code == 201 && response.has_warning("to be deleted"),
        "{response:?}"
    );
    let pod: Pod = response.object()?;
    let name = pod.name_any();
    let release = json!({"metadata": {"finalizers": null}});
    pod_space.space.patch_claim(&name, release).await?;
    pod_space.belongs(&name, &pod).await.map(drop)
}
