//! A tenant who restores a bound claim: the role `edit`, so no rights on volumes.

use super::Users;
use crate::support::claim;
use anyhow::{Context, Result, ensure};
use http::Request;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Client, ResourceExt, client::Body};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

/// A user of one namespace.
const TENANT: &str = "tenant";
/// The annotation by which the binder states that it bound a claim.
const BOUND: &str = "pv.kubernetes.io/bind-completed";

impl Users {
    /// Gives the tenant its role, and waits until it is in effect.
    pub(super) async fn admit_tenant(&self) -> Result<()> {
        let space = &self.space;
        let own = format!("--namespace={}", space.name);
        let user = format!("--user={TENANT}");
        let bind = ["create", "rolebinding", TENANT, "--clusterrole=edit"];
        space
            .cluster
            .kubectl(&[&bind[..], &[&user, &own]].concat())
            .await?;
        eventually("the tenant may create claims", async || {
            let answer = self.restore_bound(json!({})).await?;
            anyhow::Ok(answer.ok().map(drop))
        })
        .await
    }

    /// A claim from a backup with the annotations of the binder and of Volume Warden: either they
    /// are removed, or the policy refuses the claim.
    pub(super) async fn use_tenant(&self, marks: Value) -> Result<()> {
        match self.restore_bound(marks).await? {
            Ok(claim) => ensure!(!claim.annotations().contains_key(BOUND), "{claim:?}"),
            Err(refusal) => {
                let policy = refusal.contains("annotations under pv.kubernetes.io/");
                ensure!(policy, "{refusal}");
            }
        }
        Ok(())
    }

    /// The claim, or the refusal. A dry run.
    async fn restore_bound(&self, marks: Value) -> Result<Result<PersistentVolumeClaim, String>> {
        let mut restored = claim("bound", json!({"metadata": {"annotations": marks}}))?;
        let annotations = restored.annotations_mut();
        annotations.insert(BOUND.to_owned(), "yes".to_owned());
        let path = format!(
            "/api/v1/namespaces/{}/persistentvolumeclaims?dryRun=All",
            self.space.name
        );
        let request = Request::post(path)
            .header("content-type", "application/json")
            .header("impersonate-user", TENANT)
            .body(Body::from(serde_json::to_vec(&restored)?))?;
        let client: Client = self.space.cluster.client();
        let (head, body) = client.send(request).await?.into_parts();
        let body = body.collect_bytes().await?;
        Ok(match head.status.as_u16() {
            201 => Ok(serde_json::from_slice(&body).context("a claim")?),
            code => Err(format!("{code} {}", String::from_utf8(body.to_vec())?)),
        })
    }
}
