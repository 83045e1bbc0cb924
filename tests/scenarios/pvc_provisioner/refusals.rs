//! The API server refuses a claim, temporarily or permanently.

use super::fault_fixture::{FaultFixture, claim_posts};
use super::support::{Askers, TEMPLATE, annotations, mount};
use crate::support::{dry_run, is_refused};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ResourceQuota, Secret};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use volume_warden_controlplane::eventually;

/// The pause before a refused creation is tried again.
const REFUSED: Duration = Duration::from_secs(30);

/// A quota of the namespace, which also allows no Secret.
pub struct Quota {
    quotas: Api<ResourceQuota>,
    secrets: Api<Secret>,
}

impl Quota {
    /// The quota is in force when this returns: until Kubernetes has computed the usage it refuses
    /// everything.
    pub async fn new(askers: &Askers, mut hard: Value) -> Result<Self> {
        let (client, namespace) = (askers.space.cluster.client(), &askers.space.name);
        let quota = Self {
            quotas: Api::namespaced(client.clone(), namespace),
            secrets: Api::namespaced(client, namespace),
        };
        hard["secrets"] = json!("0");
        let wanted = json!({"metadata": {"name": "quota"}, "spec": {"hard": hard}});
        let wanted = serde_json::from_value(wanted)?;
        let parameters = PostParams::default();
        quota.quotas.create(&parameters, &wanted).await?;
        quota.is_in_force().await?;
        quota.is_heeded(true).await?;
        Ok(quota)
    }

    pub async fn change(&self, hard: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"hard": hard}}));
        self.quotas
            .patch("quota", &PatchParams::default(), &patch)
            .await?;
        self.is_in_force().await
    }

    /// Deletes the quota; nothing is refused any more when this returns.
    pub async fn end(self) -> Result<()> {
        let parameters = DeleteParams::default();
        self.quotas.delete("quota", &parameters).await?;
        self.is_heeded(false).await
    }

    /// Waits until the API server, which learns of quotas by a watch of its own, refuses or
    /// accepts a Secret. None is stored.
    async fn is_heeded(&self, heeded: bool) -> Result<()> {
        let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "probe"}}))?;
        eventually("the API server applies the quota", async || {
            let answer = self.secrets.create(&dry_run(), &secret).await;
            anyhow::Ok(is_refused(answer, "exceeded quota")? == heeded)
        })
        .await
    }

    async fn is_in_force(&self) -> Result<()> {
        eventually("the quota is in force", async || {
            let quota = self.quotas.get("quota").await?;
            let wanted = quota.spec.unwrap_or_default().hard;
            let status = quota.status.unwrap_or_default();
            ensure!(status.hard == wanted && status.used.is_some(), "{status:?}");
            Ok(())
        })
        .await
    }
}

/// DP-21: a refused volume does not block others, and is retried later.
#[tokio::test]
async fn one_refused_volume_does_not_block_others() -> Result<()> {
    let fixture = FaultFixture::new("quota").await?;
    let askers = &fixture.askers;
    let quota = Quota::new(askers, json!({"requests.storage": "5Gi"})).await?;
    let _warden = fixture.start().await?;
    let big = TEMPLATE.replace("1Gi", "10Gi");
    let mut three = annotations(&[
        ("big.enabled", Some("true")),
        ("big.pvc", Some(&big)),
        ("last.enabled", Some("true")),
        ("last.pvc", Some(TEMPLATE)),
    ]);
    three["spec"] =
        json!({"volumes": [mount("data", "data"), mount("big", "big"), mount("last", "last")]});
    let pod = askers.ask("pod", "data", three).await?;
    for claim in ["data", "last"] {
        askers.belongs(claim, &pod).await?;
        askers
            .has_event("pod", "PVCProvisioned", &format!("claim \"{claim}\""))
            .await?;
    }
    let message = askers
        .has_event("pod", "ErrPVCProvisionFailed", "exceeded quota")
        .await?;
    ensure!(message.contains("\"big\""), "{message}");
    askers.settled().await?;
    let answered = |wanted: u16| {
        let codes = askers.creations()?;
        anyhow::Ok(codes.iter().filter(|code| **code == wanted).count())
    };
    // Quota usage updates may cause conflicts, after which Volume Warden retries at once.
    let counts = (answered(201)?, answered(403)?);
    assert_eq!(counts, (3, 1), "one for each, and the canary's");
    quota.change(json!({"requests.storage": "20Gi"})).await?;
    // The pod does not change: half a minute later Volume Warden retries.
    askers.belongs("big", &pod).await?;
    askers
        .has_event("pod", "PVCProvisioned", "claim \"big\"")
        .await?;
    assert_eq!(answered(201)?, 4);
    Ok(())
}

/// DP-22: one event in the end.
#[tokio::test]
async fn a_failed_request_is_retried_soon() -> Result<()> {
    let fixture = FaultFixture::new("unavailable").await?;
    let askers = &fixture.askers;
    let _warden = fixture.start().await?;
    let failing = claim_posts()
        .times(2)
        .respond(503, "ServiceUnavailable", "not now");
    let failing = fixture.interposer.add(failing);
    let pod = askers.ask("pod", "data", json!({})).await?;
    askers.belongs("data", &pod).await?;
    askers
        .has_event("pod", "PVCProvisioned", "\"data\"")
        .await?;
    assert_eq!((failing.taken(), fixture.posts()), (2, 3));
    let message = askers
        .has_event("pod", "ErrPVCProvisionFailed", "not now")
        .await?;
    ensure!(message.contains("tried again"), "{message}");
    askers.settled().await?;
    assert_eq!(askers.pod_events("pod").await?.len(), 2);
    Ok(())
}

/// After a lost response Volume Warden reads whether the claim was created.
#[tokio::test]
async fn a_claim_whose_response_was_lost_is_created_once() -> Result<()> {
    let fixture = FaultFixture::new("lost-answer").await?;
    let askers = &fixture.askers;
    let _warden = fixture.start().await?;
    let lost = fixture
        .interposer
        .add(claim_posts().times(1).hold_response());
    let pod = askers.ask("pod", "data", json!({})).await?;
    lost.held(1).await?;
    let made = askers.belongs("data", &pod).await?;
    askers.settled().await?;
    assert_eq!(fixture.posts(), 2, "the canary's");
    drop(lost);
    assert_eq!(askers.claim("data").await?.metadata.uid, made.metadata.uid);
    Ok(())
}

/// DP-23, DP-33: an invalid claim is not retried repeatedly, but at once when the pod is edited.
#[tokio::test]
async fn an_invalid_claim_is_made_once_the_pod_is_edited() -> Result<()> {
    let fixture = FaultFixture::new("invalid").await?;
    let askers = &fixture.askers;
    let _warden = fixture.start().await?;
    let invalid = TEMPLATE.replace("ReadWriteOnce", "Anything");
    let pod = askers
        .ask("pod", "data", annotations(&[("data.pvc", Some(&invalid))]))
        .await?;
    let message = askers
        .has_event("pod", "ErrPVCProvisionFailed", "spec.accessModes")
        .await?;
    ensure!(message.contains("\"Anything\""), "{message}");
    let broken = askers
        .ask("broken", "other", annotations(&[("data.pvc", Some("}"))]))
        .await?;
    askers
        .has_event("broken", "ErrInvalidPVC", "line 1")
        .await?;
    for round in ["first", "second"] {
        // A status update changes no request.
        let condition = json!({"type": "Round", "status": "False", "message": round});
        let status = json!({"conditions": [condition]});
        askers.space.patch_pod_status("pod", status).await?;
    }
    askers.settled().await?;
    assert_eq!(fixture.posts(), 2, "the invalid one's and the canary's");
    for (name, claim, pod) in [("pod", "data", pod), ("broken", "other", broken)] {
        let mended = annotations(&[("data.pvc", Some(TEMPLATE))]);
        askers.patch_pod(name, mended).await?;
        askers.belongs(claim, &pod).await?;
        askers.has_event(name, "PVCProvisioned", claim).await?;
    }
    assert_eq!(fixture.posts(), 4);
    let calls = askers.space.cluster.audit().all()?;
    let answers: Vec<_> = calls
        .iter()
        .filter(|call| {
            call.namespace == askers.space.name
                && call.verb == "create"
                && call.resource == "persistentvolumeclaims"
        })
        .map(|call| call.code)
        .collect();
    let refused = answers.iter().filter(|code| **code == 422).count();
    assert_eq!((answers.len(), refused), (4, 1), "{answers:?}");
    Ok(())
}

/// A claim that the API server refuses for lack of permissions is reported, too.
#[tokio::test]
async fn a_forbidden_claim_is_reported() -> Result<()> {
    let fixture = FaultFixture::new("forbidden").await?;
    let askers = &fixture.askers;
    let _warden = fixture.start().await?;
    let refusal = claim_posts()
        .times(1)
        .respond(403, "Forbidden", "not on my watch");
    let refusal = fixture.interposer.add(refusal);
    let began = Instant::now();
    let pod = askers.ask("pod", "data", json!({})).await?;
    askers
        .has_event("pod", "ErrPVCProvisionFailed", "not on my watch")
        .await?;
    askers.settled().await?;
    // The creation is tried again when its pause is over; on a busy machine, that may be before the
    // canary is done.
    let posts = fixture.posts();
    let is_over = began.elapsed() >= REFUSED;
    assert!(posts == 2 || posts == 3 && is_over, "{posts}");
    assert_eq!(refusal.taken(), 1);
    // An edit of the annotations triggers a reconcile.
    let edited = format!("{TEMPLATE}# once more\n");
    askers
        .patch_pod("pod", annotations(&[("data.pvc", Some(&edited))]))
        .await?;
    askers
        .belongs("data", &pod)
        .await
        .context("after the edit")?;
    Ok(())
}
