//! A tenant who restores a bound claim: the role `edit`, so no rights on volumes.

use super::Users;
use crate::support::{claim, dry_run};
use anyhow::{Context, Result, bail, ensure};
use http::{Request, request::Builder};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Client, ResourceExt, client::Body};
use serde_json::{Map, Value, json};
use volume_warden_controlplane::eventually;

/// A user of one namespace.
const TENANT: &str = "tenant";
/// The annotation by which the binder states that it bound a claim.
const BOUND: &str = "pv.kubernetes.io/bind-completed";
/// The annotation by which a user restores a deleted claim.
const UNDELETE: &str = "volume-warden.dev/undelete";

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

    /// A claim from a backup with the annotations of the binder and of Volume Warden, and an update
    /// that adds one of the binder: either they are removed, or the policy refuses the request.
    pub(super) async fn use_tenant(&self, mut marks: Value) -> Result<()> {
        // If the markers were not removed at the creation, the claim has them with other values.
        let mut all = json!({BOUND: "yes"});
        for key in marks.as_object().into_iter().flat_map(Map::keys) {
            all[key] = json!("changed");
        }
        for answer in [
            self.restore_bound(marks.clone()).await?,
            self.update(&json!({BOUND: "yes"})).await?,
            self.update(&all).await?,
        ] {
            match answer {
                Ok(claim) => ensure!(!claim.annotations().contains_key(BOUND), "{claim:?}"),
                Err(refusal) => {
                    let policy = refusal.contains("annotations under pv.kubernetes.io/");
                    ensure!(policy, "{refusal}");
                }
            }
        }
        marks[UNDELETE] = json!("absent");
        match self.restore_bound(marks).await? {
            Ok(claim) => bail!("nothing is in the trash: {claim:?}"),
            Err(refusal) => is_refused_by_the_trash(&refusal),
        }
    }

    /// A claim that requests the data of a deleted one: nothing is in the trash, or it is unknown
    /// what is. A dry run.
    pub(super) async fn undelete(&self) -> Result<()> {
        let changes = json!({"metadata": {"annotations": {UNDELETE: "absent"}}});
        let wanted = claim("undeleted", changes)?;
        match self.space.claims.create(&dry_run(), &wanted).await {
            Ok(claim) => bail!("nothing is in the trash: {claim:?}"),
            Err(refusal) => is_refused_by_the_trash(&refusal.to_string()),
        }
    }

    /// The same from a backup, with the name of its volume: the claim is refused, or cannot be bound
    /// to that volume. A dry run.
    pub(super) async fn undelete_by_volume(&self, mut marks: Value) -> Result<()> {
        marks[UNDELETE] = json!("absent");
        let changes = json!({"metadata": {"annotations": marks}, "spec": {"volumeName": "absent"}});
        let wanted = claim("undeleted", changes)?;
        match self.space.claims.create(&dry_run(), &wanted).await {
            Ok(_) => Ok(()),
            Err(refusal) => is_refused_by_the_trash(&refusal.to_string()),
        }
    }

    /// The claim, or the refusal. A dry run.
    async fn restore_bound(&self, marks: Value) -> Result<Result<PersistentVolumeClaim, String>> {
        let mut restored = claim("bound", json!({"metadata": {"annotations": marks}}))?;
        let annotations = restored.annotations_mut();
        annotations.insert(BOUND.to_owned(), "yes".to_owned());
        let request = Request::post(self.path("")).header("content-type", "application/json");
        self.send(request, &json!(restored)).await
    }

    /// The claim after these annotations are added, or the refusal. A dry run.
    async fn update(&self, annotations: &Value) -> Result<Result<PersistentVolumeClaim, String>> {
        let request = Request::patch(self.path("/restored"))
            .header("content-type", "application/merge-patch+json");
        let patch = json!({"metadata": {"annotations": annotations}});
        self.send(request, &patch).await
    }

    fn path(&self, claim: &str) -> String {
        let namespace = &self.space.name;
        format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims{claim}?dryRun=All")
    }

    /// Sends a request of the tenant.
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

/// Refused by a policy that replaces a webhook, or by the webhook of pvc-trash.
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
