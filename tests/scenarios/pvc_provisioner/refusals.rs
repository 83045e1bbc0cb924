//! Claims that the API server refuses, temporarily or permanently.

use super::fault_fixture::{FaultFixture, claim_posts, retries_since};
use super::support::{PodSpace, TEMPLATE, annotations, mount};
use crate::support::{dry_run, is_refused};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ResourceQuota, Secret};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::time::Instant;
use volume_warden_controlplane::eventually;

/// A quota of the namespace. The quota also forbids Secrets, by which the tests find out whether
/// the API server applies it.
pub struct Quota {
    quotas: Api<ResourceQuota>,
    secrets: Api<Secret>,
}

impl Quota {
    /// Creates the quota, and waits until Kubernetes has computed its usage and the API server
    /// applies it. Until the usage is computed, the API server refuses every object that the quota
    /// limits.
    pub async fn new(pod_space: &PodSpace, mut hard: Value) -> Result<Self> {
        let (client, namespace) = (pod_space.space.cluster.client(), &pod_space.space.name);
        let quota = Self {
            quotas: Api::namespaced(client.clone(), namespace),
            secrets: Api::namespaced(client, namespace),
        };
        hard["secrets"] = json!("0");
        let wanted = json!({"metadata": {"name": "quota"}, "spec": {"hard": hard}});
        let wanted = serde_json::from_value(wanted)?;
        let parameters = PostParams::default();
        quota.quotas.create(&parameters, &wanted).await?;
        quota.wait_for_usage().await?;
        quota.wait_until_applied(true).await?;
        Ok(quota)
    }

    /// Changes the limits, and waits until Kubernetes has computed the usage.
    pub async fn change(&self, hard: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"hard": hard}}));
        self.quotas
            .patch("quota", &PatchParams::default(), &patch)
            .await?;
        self.wait_for_usage().await
    }

    /// Deletes the quota, and waits until the API server no longer applies it.
    pub async fn delete(self) -> Result<()> {
        let parameters = DeleteParams::default();
        self.quotas.delete("quota", &parameters).await?;
        self.wait_until_applied(false).await
    }

    /// Waits until the API server, which reads quotas from a watch, refuses a Secret (`applied`) or
    /// accepts it (not `applied`), in a dry run.
    async fn wait_until_applied(&self, applied: bool) -> Result<()> {
        let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "probe"}}))?;
        let what = if applied {
            "applies"
        } else {
            "no longer applies"
        };
        eventually(&format!("the API server {what} the quota"), async || {
            let answer = self.secrets.create(&dry_run(), &secret).await;
            anyhow::Ok(is_refused(answer, "exceeded quota")? == applied)
        })
        .await
    }

    async fn wait_for_usage(&self) -> Result<()> {
        eventually(
            "the status of the quota has its limits and usage",
            async || {
                let quota = self.quotas.get("quota").await?;
                let wanted = quota.spec.unwrap_or_default().hard;
                let status = quota.status.unwrap_or_default();
                ensure!(status.hard == wanted && status.used.is_some(), "{status:?}");
                Ok(())
            },
        )
        .await
    }
}

/// DP-21: if a quota refuses one of three claims of a pod, the other claims are created, and the
/// refused claim is retried later.
#[tokio::test]
async fn one_refused_claim_does_not_block_others() -> Result<()> {
    let fixture = FaultFixture::new("quota").await?;
    let pod_space = &fixture.pod_space;
    let quota = Quota::new(pod_space, json!({"requests.storage": "5Gi"})).await?;
    let _warden = fixture.start().await?;
    let big = TEMPLATE.replace("1Gi", "10Gi");
    let mut changes = annotations(&[
        ("big.enabled", Some("true")),
        ("big.pvc", Some(&big)),
        ("last.enabled", Some("true")),
        ("last.pvc", Some(TEMPLATE)),
    ]);
    changes["spec"] =
        json!({"volumes": [mount("data", "data"), mount("big", "big"), mount("last", "last")]});
    let began = Instant::now();
    let pod = pod_space.request_claim("pod", "data", changes).await?;
    for claim in ["data", "last"] {
        pod_space.belongs(claim, &pod).await?;
        pod_space
            .has_event("pod", "PVCProvisioned", &format!("claim \"{claim}\""))
            .await?;
    }
    let message = pod_space
        .has_event("pod", "ErrPVCProvisionFailed", "exceeded quota")
        .await?;
    ensure!(message.contains("\"big\""), "{message}");
    pod_space.wait_until_processed().await?;
    let count = |wanted: u16| {
        let codes = pod_space.creation_codes()?;
        anyhow::Ok(codes.iter().filter(|code| **code == wanted).count())
    };
    // Updates of the usage of the quota may cause conflicts, after which Volume Warden retries at
    // once. Such responses are not counted.
    assert_eq!(count(201)?, 3, "two claims and the canary's claim");
    let refused = count(403)?;
    assert!(
        (1..=1 + retries_since(began)).contains(&refused),
        "{refused}"
    );
    quota.change(json!({"requests.storage": "20Gi"})).await?;
    // The pod does not change. Volume Warden retries after half a minute.
    pod_space.belongs("big", &pod).await?;
    pod_space
        .has_event("pod", "PVCProvisioned", "claim \"big\"")
        .await?;
    assert_eq!(count(201)?, 4);
    Ok(())
}

/// DP-22: if the creation of a claim fails with 503 twice, Volume Warden retries it soon. The pod
/// has one Event for the failures and one for the created claim.
#[tokio::test]
async fn a_failed_request_is_retried_soon() -> Result<()> {
    let fixture = FaultFixture::new("unavailable").await?;
    let pod_space = &fixture.pod_space;
    let _warden = fixture.start().await?;
    let failing = claim_posts()
        .times(2)
        .respond(503, "ServiceUnavailable", "not now");
    let failing = fixture.interposer.add(failing);
    let pod = pod_space.request_claim("pod", "data", json!({})).await?;
    pod_space.belongs("data", &pod).await?;
    pod_space
        .has_event("pod", "PVCProvisioned", "\"data\"")
        .await?;
    assert_eq!((failing.taken(), fixture.posts()), (2, 3));
    let message = pod_space
        .has_event("pod", "ErrPVCProvisionFailed", "not now")
        .await?;
    ensure!(message.contains("tried again"), "{message}");
    pod_space.wait_until_processed().await?;
    assert_eq!(pod_space.pod_events("pod").await?.len(), 2);
    Ok(())
}

/// If the response to the creation of a claim is lost, Volume Warden does not create the claim
/// again.
#[tokio::test]
async fn a_claim_whose_response_was_lost_is_created_once() -> Result<()> {
    let fixture = FaultFixture::new("lost-answer").await?;
    let pod_space = &fixture.pod_space;
    let _warden = fixture.start().await?;
    let lost = fixture
        .interposer
        .add(claim_posts().times(1).hold_response());
    let pod = pod_space.request_claim("pod", "data", json!({})).await?;
    lost.held(1).await?;
    let created = pod_space.belongs("data", &pod).await?;
    pod_space.wait_until_processed().await?;
    assert_eq!(fixture.posts(), 2, "the claim and the canary's claim");
    drop(lost);
    assert_eq!(
        pod_space.claim("data").await?.metadata.uid,
        created.metadata.uid
    );
    Ok(())
}

/// DP-23, DP-33: Volume Warden does not retry an invalid claim or template repeatedly, and retries
/// at once when the template in the pod is corrected.
#[tokio::test]
async fn an_invalid_claim_is_created_once_the_pod_is_edited() -> Result<()> {
    let fixture = FaultFixture::new("invalid").await?;
    let pod_space = &fixture.pod_space;
    let _warden = fixture.start().await?;
    let invalid = TEMPLATE.replace("ReadWriteOnce", "Anything");
    let began = Instant::now();
    let pod = pod_space
        .request_claim("pod", "data", annotations(&[("data.pvc", Some(&invalid))]))
        .await?;
    let message = pod_space
        .has_event("pod", "ErrPVCProvisionFailed", "spec.accessModes")
        .await?;
    ensure!(message.contains("\"Anything\""), "{message}");
    let broken = pod_space
        .request_claim("broken", "other", annotations(&[("data.pvc", Some("}"))]))
        .await?;
    pod_space
        .has_event("broken", "ErrInvalidPVC", "line 1")
        .await?;
    for round in ["first", "second"] {
        // An update of the pod status does not change what the pod requests.
        let condition = json!({"type": "Round", "status": "False", "message": round});
        let status = json!({"conditions": [condition]});
        pod_space.space.patch_pod_status("pod", status).await?;
    }
    pod_space.wait_until_processed().await?;
    let posts = fixture.posts();
    let retries = posts
        .checked_sub(2)
        .context("the invalid claim and the canary's claim")?;
    assert!(retries <= retries_since(began), "{posts}");
    for (name, claim, pod) in [("pod", "data", pod), ("broken", "other", broken)] {
        let corrected = annotations(&[("data.pvc", Some(TEMPLATE))]);
        pod_space.patch_pod(name, corrected).await?;
        pod_space.belongs(claim, &pod).await?;
        pod_space.has_event(name, "PVCProvisioned", claim).await?;
    }
    let retries = fixture.posts().checked_sub(4).context("four claims")?;
    assert!(retries <= retries_since(began), "{retries}");
    let calls = pod_space.space.cluster.audit().all()?;
    let codes: Vec<_> = calls
        .iter()
        .filter(|call| {
            call.namespace == pod_space.space.name
                && call.verb == "create"
                && call.resource == "persistentvolumeclaims"
        })
        .map(|call| call.code)
        .collect();
    let refused = codes.iter().filter(|code| **code == 422).count();
    assert_eq!(
        (codes.len(), refused),
        (4 + retries, 1 + retries),
        "{codes:?}"
    );
    Ok(())
}

/// A claim that the API server refuses with 403 is reported in an Event, and is created after an
/// edit of the pod.
#[tokio::test]
async fn a_forbidden_claim_is_reported() -> Result<()> {
    let fixture = FaultFixture::new("forbidden").await?;
    let pod_space = &fixture.pod_space;
    let _warden = fixture.start().await?;
    let refusal = claim_posts()
        .times(1)
        .respond(403, "Forbidden", "not on my watch");
    let refusal = fixture.interposer.add(refusal);
    let began = Instant::now();
    let pod = pod_space.request_claim("pod", "data", json!({})).await?;
    pod_space
        .has_event("pod", "ErrPVCProvisionFailed", "not on my watch")
        .await?;
    pod_space.wait_until_processed().await?;
    // Volume Warden retries the creation after a pause. On a busy machine the pause may end before
    // the canary has its claim.
    let posts = fixture.posts();
    assert!((2..=2 + retries_since(began)).contains(&posts), "{posts}");
    assert_eq!(refusal.taken(), 1);
    // An edit of the template triggers a reconcile.
    let edited = format!("{TEMPLATE}# once more\n");
    pod_space
        .patch_pod("pod", annotations(&[("data.pvc", Some(&edited))]))
        .await?;
    pod_space
        .belongs("data", &pod)
        .await
        .context("after the edit")?;
    Ok(())
}
