//! A tenant who restores a bound claim. The tenant has the role `edit`, so no permissions on
//! volumes.

use super::Users;
use crate::support::{claim, dry_run};
use anyhow::{Context, Result, bail, ensure};
use http::{Request, request::Builder};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Client, ResourceExt, client::Body};
use serde_json::{Map, Value, json};
use volume_warden_controlplane::eventually;

/// The user who has permissions in one namespace.
const TENANT: &str = "tenant";
/// The annotation by which the binder states that it bound a claim.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation by which a user restores a deleted claim.
const UNDELETE: &str = "volume-warden.dev/undelete";

impl Users {
    /// Binds the role `edit` to the tenant, and waits until the binding is in effect.
    pub(super) async fn grant_tenant_role(&self) -> Result<()> {
        let space = &self.space;
        let namespace = format!("--namespace={}", space.name);
        let user = format!("--user={TENANT}");
        let bind = ["create", "rolebinding", TENANT, "--clusterrole=edit"];
        space
            .cluster
            .kubectl(&[&bind[..], &[&user, &namespace]].concat())
            .await?;
        eventually("the tenant may create claims", async || {
            let result = self.create_bound_claim(json!({})).await?;
            anyhow::Ok(result.ok().map(drop))
        })
        .await
    }

    /// As the tenant, creates a claim from a backup with the annotations of the binder and of
    /// Volume Warden, and adds such annotations to a claim: either the annotation of the binder is
    /// removed, or the policy refuses the request. Then restores a claim that is not in the trash,
    /// which is refused.
    pub(super) async fn use_claims_as_tenant(&self, mut markers: Value) -> Result<()> {
        // The claim has the markers if they were not removed at its creation, so the update gives
        // them other values.
        let mut all = json!({BIND_COMPLETED: "yes"});
        let annotations = markers["annotations"].as_object();
        for key in annotations.into_iter().flat_map(Map::keys) {
            all[key] = json!("changed");
        }
        for result in [
            self.create_bound_claim(markers.clone()).await?,
            self.annotate_claim(&json!({BIND_COMPLETED: "yes"})).await?,
            self.annotate_claim(&all).await?,
        ] {
            match result {
                Ok(claim) => ensure!(
                    !claim.annotations().contains_key(BIND_COMPLETED),
                    "{claim:?}"
                ),
                Err(refusal) => {
                    let policy = refusal.contains("annotations under pv.kubernetes.io/");
                    ensure!(policy, "{refusal}");
                }
            }
        }
        markers["annotations"][UNDELETE] = json!("absent");
        match self.create_bound_claim(markers).await? {
            Ok(claim) => bail!("restored a claim that is not in the trash: {claim:?}"),
            Err(refusal) => is_refused_by_the_trash(&refusal),
        }
    }

    /// Restores, by dry run, a claim that is not in the trash. The webhook refuses the claim, or,
    /// without an answer of the webhook, a policy does.
    pub(super) async fn undelete(&self) -> Result<()> {
        let changes = json!({"metadata": {"annotations": {UNDELETE: "absent"}}});
        let new = claim("undeleted", changes)?;
        match self.space.claims.create(&dry_run(), &new).await {
            Ok(claim) => bail!("restored a claim that is not in the trash: {claim:?}"),
            Err(refusal) => is_refused_by_the_trash(&refusal.to_string()),
        }
    }

    /// Does the same from a backup, with the name of a volume: the claim is refused, or cannot be
    /// bound, because the volume does not exist.
    pub(super) async fn undelete_by_volume(&self, mut markers: Value) -> Result<()> {
        markers["annotations"][UNDELETE] = json!("absent");
        let changes = json!({"metadata": markers, "spec": {"volumeName": "absent"}});
        let new = claim("undeleted", changes)?;
        match self.space.claims.create(&dry_run(), &new).await {
            Ok(_) => Ok(()),
            Err(refusal) => is_refused_by_the_trash(&refusal.to_string()),
        }
    }

    /// As the tenant, creates by dry run a claim with this metadata and the annotation of the
    /// binder. Returns the claim or the refusal.
    async fn create_bound_claim(
        &self,
        markers: Value,
    ) -> Result<Result<PersistentVolumeClaim, String>> {
        let mut restored = claim("bound", json!({"metadata": markers}))?;
        let annotations = restored.annotations_mut();
        annotations.insert(BIND_COMPLETED.to_owned(), "yes".to_owned());
        let request = Request::post(self.path("")).header("content-type", "application/json");
        self.send(request, &json!(restored)).await
    }

    /// As the tenant, adds these annotations to a claim by dry run. Returns the claim or the
    /// refusal.
    async fn annotate_claim(
        &self,
        annotations: &Value,
    ) -> Result<Result<PersistentVolumeClaim, String>> {
        let request = Request::patch(self.path("/restored"))
            .header("content-type", "application/merge-patch+json");
        let patch = json!({"metadata": {"annotations": annotations}});
        self.send(request, &patch).await
    }

    fn path(&self, claim: &str) -> String {
        let namespace = &self.space.name;
        format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims{claim}?dryRun=All")
    }

    /// Sends a request as the tenant.
    async fn send(
        &self,
        request: Builder,
        body: &Value,
    ) -> Result<Result<PersistentVolumeClaim, String>> {
        let request = request
            .header("impersonate-user", TENANT)
            .body(Body::from(serde_json::to_vec(body)?))?;
        let client: Client = self.space.cluster.client();
        let (head, body) = client.send(request).await?.into_parts();
        let body = body.collect_bytes().await?;
        Ok(match head.status.as_u16() {
            200 | 201 => Ok(serde_json::from_slice(&body).context("a claim")?),
            code => Err(format!("{code} {}", String::from_utf8(body.to_vec())?)),
        })
    }
}

/// Checks that a policy or the webhook of pvc-trash refused the request.
fn is_refused_by_the_trash(refusal: &str) -> Result<()> {
    let refusals = [
        "did not add spec.volumeName",
        "is in the trash. Check its name",
        "annotations under pv.kubernetes.io/",
    ];
    let refused = refusals.iter().any(|each| refusal.contains(each));
    ensure!(refused, "{refusal}");
    Ok(())
}
