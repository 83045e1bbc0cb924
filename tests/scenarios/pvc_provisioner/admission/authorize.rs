//! `--authorize-requester=pod-creator`: only who may create claims gets some made.

use super::{
    posted::{Posted, post_as, reviewed},
    ward::Ward,
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
    let (cluster, namespace) = (askers.space.cluster, &askers.space.name);
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
async fn only_who_may_create_claims_gets_some() -> Result<()> {
    let ward = Ward::new("authorized", &["--authorize-requester=pod-creator"]).await?;
    let askers = &ward.askers;
    grant(askers).await?;
    for who in [BY_NAME, BY_GROUP] {
        // The right is granted once the API server has heard of it.
        let pod = eventually("the claim is there with its pod", async || {
            let posted = posted_by(who, askers).await?;
            let pod: Pod = posted.object()?;
            ensure!(posted.warnings.is_empty(), "{posted:?}");
            askers.claim(&pod.name_any()).await?;
            anyhow::Ok(Some(pod))
        })
        .await?;
        askers.belongs(&pod.name_any(), &pod).await?;
        askers
            .is_told(&pod.name_any(), "PVCProvisioned", "created")
            .await?;
    }

    let posted = posted_by(PODS_ONLY, askers).await?;
    let sentence = format!(
        "jane may not create persistentvolumeclaims in namespace \"{}\"",
        askers.space.name
    );
    ensure!(posted.code == 201 && posted.says(&sentence), "{posted:?}");
    let refused = posted.object::<Pod>()?.name_any();

    // Where nobody can say who may, nobody may.
    let reviews = Rule::on("POST").path_contains("/subjectaccessreviews");
    let broken = ward
        .between
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
            .is_told(pod, "ErrRequesterUnknown", "re-create the pod")
            .await?;
    }
    // A claim that is not made in time is not made here at all, so the canary asks for none.
    askers.heard().await?;
    for pod in [&refused, &unclear] {
        ensure!(askers.space.claims.get_opt(pod).await?.is_none(), "{pod}");
        assert_eq!(askers.told(pod).await?.len(), 1);
    }
    a_pod_that_admission_missed(askers).await
}

/// The reconciler cannot know who asked. No webhook is called in this namespace.
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
    let told = eventually("the pod is told", async || {
        let fields = "involvedObject.name=missed,reason=ErrRequesterUnknown";
        let events = events.list(&ListParams::default().fields(fields)).await?;
        anyhow::Ok(!events.items.is_empty())
    })
    .await;
    let made = claims.get_opt("missed").await?;
    // Others would make it.
    pods.delete("missed", &DeleteParams::default()).await?;
    ensure!(made.is_none());
    told
}
