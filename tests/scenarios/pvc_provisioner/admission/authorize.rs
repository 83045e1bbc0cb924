//! `--authorize-requester=pod-creator`: only pods of users who may create claims get claims.

use super::{
    outage_fixture::OutageFixture,
    posted::{Posted, post_as, reviewed},
};
use crate::{
    pvc_provisioner::support::{Askers, asking},
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

/// A user and the group that user is in.
type Who = (&'static str, &'static str);

/// May create pods alone.
const PODS_ONLY: Who = ("jane", "testers");
/// May create claims by name, too.
const BY_NAME: Who = ("joe", "testers");
/// May create claims as one of a group, too.
const BY_GROUP: Who = ("jill", "builders");

async fn grant(askers: &Askers) -> Result<()> {
    let (cluster, namespace) = (askers.space.cluster.clone(), &askers.space.name);
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
        let here = ["-n", namespace];
        cluster.kubectl(&[arguments, &here].concat()).await?;
    }
    // As the shipped component does.
    let rights =
        repository().join("manifests/components/pvc-provisioner-authorize-requester/rbac.yaml");
    cluster
        .kubectl(&["apply", "-f", &rights.to_string_lossy()])
        .await?;
    Ok(())
}

async fn posted_by(who: Who, askers: &Askers) -> Result<Posted> {
    reviewed(askers, async |name| {
        post_as(
            Some(who),
            &askers.space,
            &asking(name, name, json!({}))?,
            "",
        )
        .await
    })
    .await
}

#[tokio::test]
async fn only_users_who_may_create_claims_get_them() -> Result<()> {
    let fixture = OutageFixture::new("authorized", &["--authorize-requester=pod-creator"]).await?;
    let askers = &fixture.askers;
    grant(askers).await?;
    for who in [BY_NAME, BY_GROUP] {
        // The API server's authorizer applies the grant with a delay.
        let pod = eventually("the claim exists with its pod", async || {
            let posted = posted_by(who, askers).await?;
            let pod: Pod = posted.object()?;
            ensure!(posted.warnings.is_empty(), "{posted:?}");
            askers.claim(&pod.name_any()).await?;
            anyhow::Ok(Some(pod))
        })
        .await?;
        askers.belongs(&pod.name_any(), &pod).await?;
        askers
            .has_event(&pod.name_any(), "PVCProvisioned", "created")
            .await?;
    }

    let posted = posted_by(PODS_ONLY, askers).await?;
    let sentence = format!(
        "jane may not create persistentvolumeclaims in namespace \"{}\"",
        askers.space.name
    );
    ensure!(posted.code == 201 && posted.says(&sentence), "{posted:?}");
    let refused = posted.object::<Pod>()?.name_any();

    // If the authorization check fails, the request is denied.
    let reviews = Rule::on("POST").path_contains("/subjectaccessreviews");
    let broken = fixture
        .interposer
        .add(reviews.respond(500, "InternalError", "not today"));
    let posted = posted_by(BY_NAME, askers).await?;
    ensure!(
        broken.taken() > 0 && posted.says("could not be checked"),
        "{posted:?}"
    );
    let unclear = posted.object::<Pod>()?.name_any();
    drop(broken);

    for pod in [&refused, &unclear] {
        askers
            .has_event(pod, "ErrRequesterUnknown", "re-create the pod")
            .await?;
    }
    // The reconciler creates no claims here, so the canary requests none.
    askers.heard().await?;
    for pod in [&refused, &unclear] {
        ensure!(askers.space.claims.get_opt(pod).await?.is_none(), "{pod}");
        assert_eq!(askers.pod_events(pod).await?.len(), 1);
    }
    a_pod_that_admission_missed(askers).await
}

/// The reconciler cannot know the requester. No webhook is called in this namespace, so another pod
/// would not get the claim either.
async fn a_pod_that_admission_missed(askers: &Askers) -> Result<()> {
    let client = askers.space.cluster.client();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    let events: Api<Event> = Api::namespaced(client.clone(), "kube-system");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, "kube-system");
    let missed = asking("missed", "missed", json!({}))?;
    eventually("pods can be created there", async || {
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
        anyhow::Ok(messages.any(|each| each.ends_with("create the claim \"missed\"")))
    })
    .await;
    let made = claims.get_opt("missed").await?;
    // Another test's Volume Warden would create it.
    pods.delete("missed", &DeleteParams::default()).await?;
    ensure!(made.is_none());
    published
}
