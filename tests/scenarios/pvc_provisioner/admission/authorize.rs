//! `--authorize-requester=pod-creator`: only pods of users who may create claims get claims.

use super::{
    outage_fixture::OutageFixture,
    posted::{PostResponse, post_as, until_reviewed},
};
use crate::{
    pvc_provisioner::support::{PodSpace, requesting_pod},
    support::repository,
};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use volume_warden_controlplane::{Rule, eventually};

/// The name of a user, and a group of that user.
type Requester = (&'static str, &'static str);

/// May create pods, but no claims.
const PODS_ONLY: Requester = ("jane", "testers");
/// May create pods, and claims by a RoleBinding of the user.
const BY_NAME: Requester = ("joe", "testers");
/// May create pods, and claims by a RoleBinding of the group.
const BY_GROUP: Requester = ("jill", "builders");

/// Creates the roles of the users, and the permissions that Volume Warden needs to check them.
async fn create_roles(pod_space: &PodSpace) -> Result<()> {
    let (cluster, namespace) = (pod_space.space.cluster.clone(), &pod_space.space.name);
    for arguments in [
        [
            "create",
            "role",
            "pods",
            "--verb=create,get",
            "--resource=pods",
        ]
        .as_slice(),
        &[
            "create",
            "role",
            "claims",
            "--verb=create",
            "--resource=persistentvolumeclaims",
        ],
        &[
            "create",
            "rolebinding",
            "pods",
            "--role=pods",
            "--group=testers",
            "--group=builders",
        ],
        &[
            "create",
            "rolebinding",
            "claims",
            "--role=claims",
            "--user=joe",
            "--group=builders",
        ],
    ] {
        let in_namespace = ["-n", namespace];
        cluster
            .kubectl(&[arguments, &in_namespace].concat())
            .await?;
    }
    // The RBAC rules of the shipped component.
    let permissions =
        repository().join("manifests/components/pvc-provisioner-authorize-requester/rbac.yaml");
    cluster
        .kubectl(&["apply", "-f", &permissions.to_string_lossy()])
        .await?;
    Ok(())
}

async fn post_as_requester(requester: Requester, pod_space: &PodSpace) -> Result<PostResponse> {
    until_reviewed(pod_space, async |name| {
        post_as(
            Some(requester),
            &pod_space.space,
            &requesting_pod(name, name, json!({}))?,
            "",
        )
        .await
    })
    .await
}

/// A user who may not create claims, or whose permissions cannot be checked, gets a pod without a
/// claim, a warning and an Event. Volume Warden creates no claim later, because the reconciler does
/// not know who created a pod.
#[tokio::test]
async fn only_users_who_may_create_claims_get_them() -> Result<()> {
    let fixture = OutageFixture::new("authorized", &["--authorize-requester=pod-creator"]).await?;
    let pod_space = &fixture.pod_space;
    create_roles(pod_space).await?;
    for requester in [BY_NAME, BY_GROUP] {
        // The API server applies roles and bindings with a delay.
        let pod = eventually("the claim exists as soon as its pod", async || {
            let response = post_as_requester(requester, pod_space).await?;
            let pod: Pod = response.object()?;
            ensure!(response.warnings.is_empty(), "{response:?}");
            pod_space.claim(&pod.name_any()).await?;
            anyhow::Ok(Some(pod))
        })
        .await?;
        pod_space.belongs(&pod.name_any(), &pod).await?;
        pod_space
            .has_event(&pod.name_any(), "PVCProvisioned", "created")
            .await?;
    }

    let response = post_as_requester(PODS_ONLY, pod_space).await?;
    let warning = format!(
        "jane may not create persistentvolumeclaims in namespace \"{}\"",
        pod_space.space.name
    );
    ensure!(
        response.code == 201 && response.has_warning(&warning),
        "{response:?}"
    );
    let refused = response.object::<Pod>()?.name_any();

    // If the check of the permissions fails, no claim is created.
    let reviews = Rule::on("POST").path_contains("/subjectaccessreviews");
    let broken = fixture
        .interposer
        .add(reviews.respond(500, "InternalError", "not today"));
    let response = post_as_requester(BY_NAME, pod_space).await?;
    ensure!(
        broken.taken() > 0 && response.has_warning("could not be checked"),
        "{response:?}"
    );
    let unchecked = response.object::<Pod>()?.name_any();
    drop(broken);

    for pod in [&refused, &unchecked] {
        pod_space
            .has_event(pod, "ErrRequesterUnknown", "re-create the pod")
            .await?;
    }
    // The reconciler creates no claims with this option, so a canary that needs a claim cannot be
    // used.
    pod_space.wait_for_watches().await?;
    for pod in [&refused, &unchecked] {
        ensure!(
            pod_space.space.claims.get_opt(pod).await?.is_none(),
            "{pod}"
        );
        assert_eq!(pod_space.pod_events(pod).await?.len(), 1);
    }
    check_pod_that_admission_missed(pod_space).await
}

/// Checks a pod in `kube-system`, where the API server calls no webhook, so Volume Warden cannot
/// check the requester. A recreated pod would not get the claim either, so the Event asks the user
/// to create the claim.
async fn check_pod_that_admission_missed(pod_space: &PodSpace) -> Result<()> {
    let client = pod_space.space.cluster.client();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    let events: Api<Event> = Api::namespaced(client.clone(), "kube-system");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, "kube-system");
    let missed = requesting_pod("missed", "missed", json!({}))?;
    eventually("the pod can be created in kube-system", async || {
        pods.create(&PostParams::default(), &missed).await.map(drop)
    })
    .await?;
    let published = eventually("the pod has the Event", async || {
        let fields = "involvedObject.name=missed,reason=ErrRequesterUnknown";
        let events = events.list(&ListParams::default().fields(fields)).await?;
        let mut messages = events
            .items
            .iter()
            .filter_map(|event| event.message.as_deref());
        anyhow::Ok(messages.any(|each| each.ends_with("create the claim \"missed\" yourself")))
    })
    .await;
    let created = claims.get_opt("missed").await?;
    // If the pod stayed, the Volume Warden of another test would create the claim.
    pods.delete("missed", &DeleteParams::default()).await?;
    ensure!(created.is_none());
    published
}
