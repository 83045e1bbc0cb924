//! A tenant who tries to get a volume of another tenant by a claim with the annotations of the
//! binder.

use crate::support::{Space, bare, claim, dry_run, guarded, rbac, volume};
use anyhow::{Context, Result, ensure};
use http::{Request, request::Builder};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Api, ResourceExt, api::PostParams, client::Body};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

/// The user that all controllers share if kube-controller-manager runs without
/// `--use-service-account-credentials`.
const CONTROLLER: &str = "system:kube-controller-manager";

/// The claim in the response, and the header `Warning`.
type Created = (PersistentVolumeClaim, String);

/// A namespace in which the user `tenant` has the role `edit`, and a volume without a claim.
struct Tenant {
    space: Space,
    volume: String,
}

impl Tenant {
    async fn new(space: Space) -> Result<Self> {
        rbac::grant_edit(&space, "tenant").await?;
        let name = format!("{}-precious", space.name);
        let released = volume(&name, json!({"spec": {"storageClassName": "gold"}}))?;
        let post = PostParams::default();
        space.volumes.create(&post, &released).await?;
        let tenant = Self {
            space,
            volume: name,
        };
        eventually("the volume is Available", async || {
            tenant
                .phase()
                .await
                .map(|phase| (phase == "Available").then_some(()))
        })
        .await?;
        Ok(tenant)
    }

    async fn phase(&self) -> Result<String> {
        let volume = self.space.volumes.get(&self.volume).await?;
        let status = volume.status.context("no status")?;
        Ok(status.phase.unwrap_or_default())
    }

    /// Creates a claim that names the volume, with the annotations of a bound claim.
    async fn create_annotated(
        &self,
        name: &str,
        user: Option<&str>,
    ) -> Result<Result<Created, String>> {
        let annotations = json!({"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes", "team": "a"});
        let changes =
            json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": self.volume}});
        let request = Request::post(self.path()).header("content-type", "application/json");
        self.send(request, user, &json!(claim(name, changes)?))
            .await
    }

    /// Creates a claim that names the volume, as the tenant.
    async fn create_claim(&self, name: &str) -> Result<()> {
        let changes = json!({"spec": {"volumeName": self.volume}});
        let request = Request::post(self.path()).header("content-type", "application/json");
        let body = json!(claim(name, changes)?);
        let created = self.send(request, Some("tenant"), &body).await?;
        created.map_err(anyhow::Error::msg)?;
        Ok(())
    }

    /// Adds an annotation of a bound claim to a claim, by the claim itself or its subresource
    /// `status`.
    async fn annotate(&self, path: &str, user: Option<&str>) -> Result<Result<Created, String>> {
        let annotations = json!({"pv.kubernetes.io/bind-completed": "yes", "team": "a"});
        let body = json!({"metadata": {"annotations": annotations}});
        let request = Request::patch(format!("{}/{path}", self.path()))
            .header("content-type", "application/merge-patch+json");
        self.send(request, user, &body).await
    }

    fn path(&self) -> String {
        let namespace = &self.space.name;
        format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims")
    }

    async fn send(
        &self,
        mut request: Builder,
        user: Option<&str>,
        body: &Value,
    ) -> Result<Result<Created, String>> {
        if let Some(user) = user {
            request = request.header("impersonate-user", user);
        }
        let request = request.body(Body::from(serde_json::to_vec(body)?))?;
        let response = self.space.cluster.client().send(request).await?;
        let (head, body) = response.into_parts();
        let warning = head.headers.get("warning").map(|text| text.to_str());
        let warning = warning.transpose()?.unwrap_or_default().to_owned();
        let body = body.collect_bytes().await?;
        Ok(match head.status.as_u16() {
            200 | 201 => Ok((serde_json::from_slice(&body)?, warning)),
            code => Err(format!("{code} {}", String::from_utf8(body.to_vec())?)),
        })
    }
}

fn annotations(claim: &PersistentVolumeClaim) -> Vec<&str> {
    claim.annotations().keys().map(String::as_str).collect()
}

/// Checks that the annotations of the binder were removed, with a warning. Returns an error if the
/// webhook was too late and the policy refused the request.
fn annotations_are_removed(response: Result<Created, String>) -> Result<()> {
    let (claim, warning) = match response {
        Ok(created) => created,
        Err(refusal) => {
            assert!(refusal.starts_with("403"), "{refusal}");
            anyhow::bail!(refusal);
        }
    };
    assert_eq!(annotations(&claim), ["team"]);
    assert!(warning.contains("were removed from the claim"), "{warning}");
    Ok(())
}

/// A claim from a manifest that was copied from a bound claim: it is created without the
/// annotations of the binder.
#[tokio::test]
async fn a_claim_created_with_annotations_of_the_binder_gets_no_volume() -> Result<()> {
    let tenant = Tenant::new(Space::new(guarded().await?, "thief").await?).await?;
    let mut attempts = 0;
    eventually("the claim is reviewed in time", async || {
        attempts += 1;
        let name = format!("copied-{attempts}");
        annotations_are_removed(tenant.create_annotated(&name, Some("tenant")).await?)
    })
    .await?;
    eventually("the binder compares claim and volume", async || {
        let events = tenant.space.events_with("VolumeMismatch").await?;
        anyhow::Ok((!events.is_empty()).then_some(()))
    })
    .await?;
    ensure!(tenant.phase().await? == "Available");
    // An administrator may patch volumes, and may therefore restore bound claims.
    let (claim, _) = match tenant.create_annotated("restored", None).await? {
        Ok(created) => created,
        Err(refusal) => anyhow::bail!(refusal),
    };
    assert_eq!(annotations(&claim).len(), 3);
    eventually("the volume is Bound", async || {
        tenant
            .phase()
            .await
            .map(|phase| (phase == "Bound").then_some(()))
    })
    .await
}

/// If the webhook does not answer, the ValidatingAdmissionPolicy refuses the claim.
#[tokio::test]
async fn without_the_webhook_a_claim_with_annotations_of_the_binder_is_refused() -> Result<()> {
    let tenant = Tenant::new(Space::new(bare().await?, "thief").await?).await?;
    let mut attempts = 0;
    eventually("the policy is in effect", async || {
        attempts += 1;
        let name = format!("copied-{attempts}");
        let response = tenant.create_annotated(&name, Some("tenant")).await?;
        let Err(refusal) = response else {
            anyhow::bail!("the claim was created");
        };
        ensure!(refusal.starts_with("403"), "{refusal}");
        ensure!(
            refusal.contains("only users who may patch or update persistentvolumes"),
            "{refusal}"
        );
        Ok(())
    })
    .await
}

/// A manifest that was copied from a bound claim is applied to a Pending claim: the annotations of
/// the binder are not added.
#[tokio::test]
async fn a_claim_updated_with_annotations_of_the_binder_gets_no_volume() -> Result<()> {
    let tenant = Tenant::new(Space::new(guarded().await?, "later").await?).await?;
    tenant.create_claim("data").await?;
    eventually("the update is reviewed in time", async || {
        annotations_are_removed(tenant.annotate("data", Some("tenant")).await?)
    })
    .await?;
    ensure!(tenant.phase().await? == "Available");
    // The binder and users who restore a cluster may add it.
    let restored = tenant.annotate("data", None).await?;
    restored.map_err(anyhow::Error::msg)?;
    eventually("the volume is Bound", async || {
        let phase = tenant.phase().await?;
        anyhow::Ok((phase == "Bound").then_some(()))
    })
    .await?;
    // An update of a claim that already has the annotation is not changed.
    let (claim, warning) = match tenant.annotate("data", Some("tenant")).await? {
        Ok(updated) => updated,
        Err(refusal) => anyhow::bail!(refusal),
    };
    ensure!(annotations(&claim).len() >= 2 && warning.is_empty());
    Ok(())
}

/// A [`Tenant`] in a cluster where all controllers of Kubernetes share one user. This user creates
/// claims from templates, which tenants write, and may change volumes.
async fn with_shared_controller(space: Space) -> Result<Tenant> {
    let tenant = Tenant::new(space).await?;
    let space = &tenant.space;
    rbac::grant_edit(space, CONTROLLER).await?;
    let (client, controller) = (space.cluster.client(), rbac::user(CONTROLLER));
    let binder = "system:controller:persistent-volume-binder";
    rbac::create_cluster_role_binding(&client, &space.name, binder, &controller).await?;
    eventually("the controllers may change volumes", async || {
        rbac::is_allowed(&client, &controller, "", "update persistentvolumes").await
    })
    .await?;
    Ok(tenant)
}

/// The annotations of the binder in a template are removed from its claims, although the shared
/// user may change volumes.
#[tokio::test]
async fn a_claim_from_a_template_loses_the_annotations_of_the_binder() -> Result<()> {
    let tenant = with_shared_controller(Space::new(guarded().await?, "template").await?).await?;
    let mut attempts = 0;
    eventually("the claim is reviewed in time", async || {
        attempts += 1;
        let name = format!("of-a-template-{attempts}");
        annotations_are_removed(tenant.create_annotated(&name, Some(CONTROLLER)).await?)
    })
    .await?;
    ensure!(tenant.phase().await? == "Available");
    // The binder has the same user, and may add them.
    tenant.create_claim("data").await?;
    let bound = tenant.annotate("data", Some(CONTROLLER)).await?;
    let (claim, warning) = bound.map_err(anyhow::Error::msg)?;
    ensure!(annotations(&claim).len() == 2 && warning.is_empty());
    Ok(())
}

#[tokio::test]
async fn without_the_webhook_a_claim_from_an_annotated_template_is_refused() -> Result<()> {
    let tenant = with_shared_controller(Space::new(bare().await?, "template").await?).await?;
    let mut attempts = 0;
    eventually("the policy is in effect", async || {
        attempts += 1;
        let name = format!("of-a-template-{attempts}");
        let Err(refusal) = tenant.create_annotated(&name, Some(CONTROLLER)).await? else {
            anyhow::bail!("the claim was created");
        };
        ensure!(
            refusal.contains("only users who may patch or update persistentvolumes"),
            "{refusal}"
        );
        Ok(())
    })
    .await
}

/// If the webhook does not answer, the ValidatingAdmissionPolicy refuses to add the annotation, by
/// an update of the claim or of its status.
#[tokio::test]
async fn without_the_webhook_an_update_with_annotations_of_the_binder_is_refused() -> Result<()> {
    let space = Space::new(bare().await?, "later").await?;
    let (client, user, namespace) = (space.cluster.client(), rbac::user("tenant"), &space.name);
    let rule = rbac::rule(&["patch"], "persistentvolumeclaims/status");
    rbac::create_role(&client, namespace, "statuses", vec![rule]).await?;
    let role = ("Role", "statuses");
    rbac::create_role_binding(&client, namespace, "statuses", role, &user).await?;
    eventually("the tenant may patch the status", async || {
        let permission = "patch persistentvolumeclaims/status";
        rbac::is_allowed(&client, &user, namespace, permission).await
    })
    .await?;
    let tenant = Tenant::new(space).await?;
    tenant.create_claim("data").await?;
    // A dry run: without the policy, a stored claim with this annotation could get the volume.
    let annotations = json!({"pv.kubernetes.io/bind-completed": "yes"});
    let probe = json!(claim(
        "probe",
        json!({"metadata": {"annotations": annotations}})
    )?);
    eventually("the policy is in effect", async || {
        let request = Request::post(format!("{}?dryRun=All", tenant.path()))
            .header("content-type", "application/json");
        let refused = tenant.send(request, Some("tenant"), &probe).await?;
        ensure!(refused.is_err(), "the claim is not refused");
        Ok(())
    })
    .await?;
    for path in ["data", "data/status"] {
        let Err(refusal) = tenant.annotate(path, Some("tenant")).await? else {
            anyhow::bail!("{path} was changed");
        };
        assert!(
            refusal.starts_with("403")
                && refusal.contains("only users who may patch or update persistentvolumes"),
            "{refusal}"
        );
    }
    ensure!(tenant.phase().await? == "Available");
    Ok(())
}

/// A claim with the name in the claimRef of a parked volume would get the volume. The policy
/// refuses to create it, also for an administrator.
#[tokio::test]
async fn the_claim_that_a_parked_volume_names_cannot_be_created() -> Result<()> {
    let space = Space::new(bare().await?, "parked").await?;
    let system = Api::namespaced(space.cluster.client(), "volume-warden");
    let parked = claim("parked-1", json!({}))?;
    eventually("the policy is in effect", async || {
        let refused = system.create(&dry_run(), &parked).await;
        let refusal = refused.err().map(|error| error.to_string());
        let refusal = refusal.context("the claim is not refused")?;
        ensure!(
            refusal.contains("names that begin with parked-"),
            "{refusal}"
        );
        Ok(())
    })
    .await?;
    system
        .create(&dry_run(), &claim("unparked-1", json!({}))?)
        .await?;
    space.claims.create(&dry_run(), &parked).await?;
    Ok(())
}
