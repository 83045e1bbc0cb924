//! A tenant who wants a volume of another tenant, by the annotations of the binder.

use crate::support::{Space, bare, claim, dry_run, guarded, volume};
use anyhow::{Context, Result, ensure};
use http::{Request, request::Builder};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Api, ResourceExt, api::PostParams, client::Body};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

/// The user that all controllers share if kube-controller-manager runs without
/// `--use-service-account-credentials`.
const CONTROLLER: &str = "system:kube-controller-manager";

/// The claim as the answer shows it, and the warnings.
type Created = (PersistentVolumeClaim, String);

/// A namespace in which the user `tenant` may do what the role `edit` permits, and a volume that
/// has no claim.
struct Tenant {
    space: Space,
    volume: String,
}

impl Tenant {
    async fn new(space: Space) -> Result<Self> {
        let own = format!("--namespace={}", space.name);
        let bind = ["create", "rolebinding", "tenant", "--clusterrole=edit"];
        let bind = [&bind[..], &["--user=tenant", &own]].concat();
        space.cluster.kubectl(&bind).await?;
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

    /// Creates a claim that states that it is bound to the volume.
    async fn claim(&self, name: &str, user: Option<&str>) -> Result<Result<Created, String>> {
        let annotations = json!({"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes", "team": "a"});
        let changes =
            json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": self.volume}});
        let request = Request::post(self.path()).header("content-type", "application/json");
        self.send(request, user, &json!(claim(name, changes)?))
            .await
    }

    /// Creates a claim that names the volume.
    async fn pending(&self, name: &str) -> Result<()> {
        let changes = json!({"spec": {"volumeName": self.volume}});
        let request = Request::post(self.path()).header("content-type", "application/json");
        let body = json!(claim(name, changes)?);
        let created = self.send(request, Some("tenant"), &body).await?;
        created.map_err(anyhow::Error::msg)?;
        Ok(())
    }

    /// Adds to a claim, or to its `status`, that it is bound.
    async fn state(&self, of: &str, user: Option<&str>) -> Result<Result<Created, String>> {
        let annotations = json!({"pv.kubernetes.io/bind-completed": "yes", "team": "a"});
        let body = json!({"metadata": {"annotations": annotations}});
        let request = Request::patch(format!("{}/{of}", self.path()))
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
        let answer = self.space.cluster.client().send(request).await?;
        let (head, body) = answer.into_parts();
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

/// The annotations of the binder are removed, with a warning. An error if the webhook was too late,
/// and the policy refused the request.
fn are_removed(answer: Result<Created, String>) -> Result<()> {
    let (claim, warning) = match answer {
        Ok(stored) => stored,
        Err(refusal) => {
            assert!(refusal.starts_with("403"), "{refusal}");
            anyhow::bail!(refusal);
        }
    };
    assert_eq!(annotations(&claim), ["team"]);
    assert!(warning.contains("were removed from the claim"), "{warning}");
    Ok(())
}

/// As in a manifest that was copied from a bound claim: the claim is created, and is an ordinary
/// one.
#[tokio::test]
async fn a_claim_that_states_that_it_is_bound_gets_no_volume_by_that() -> Result<()> {
    let tenant = Tenant::new(Space::new(guarded().await?, "thief").await?).await?;
    let mut attempts = 0;
    eventually("the claim is reviewed in time", async || {
        attempts += 1;
        let name = format!("copied-{attempts}");
        are_removed(tenant.claim(&name, Some("tenant")).await?)
    })
    .await?;
    eventually("the binder compares claim and volume", async || {
        let events = tenant.space.events_with("VolumeMismatch").await?;
        anyhow::Ok((!events.is_empty()).then_some(()))
    })
    .await?;
    ensure!(tenant.phase().await? == "Available");
    // An administrator, who may patch volumes, may restore bound claims.
    let (claim, _) = match tenant.claim("restored", None).await? {
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

/// Load or an outage cannot switch the defence off.
#[tokio::test]
async fn without_the_webhook_such_a_claim_is_refused() -> Result<()> {
    let tenant = Tenant::new(Space::new(bare().await?, "thief").await?).await?;
    let mut attempts = 0;
    eventually("the policy is in effect", async || {
        attempts += 1;
        let name = format!("copied-{attempts}");
        let refused = tenant.claim(&name, Some("tenant")).await?;
        let Err(refusal) = refused else {
            anyhow::bail!("created");
        };
        ensure!(refusal.starts_with("403"), "{refusal}");
        assert!(
            refusal.contains("only users who may patch or update persistentvolumes"),
            "{refusal}"
        );
        Ok(())
    })
    .await
}

/// As when a manifest that was copied from a bound claim is applied to a claim that waits for its
/// volume: the claim stays as it is.
#[tokio::test]
async fn a_claim_that_states_later_that_it_is_bound_gets_no_volume_by_that() -> Result<()> {
    let tenant = Tenant::new(Space::new(guarded().await?, "later").await?).await?;
    tenant.pending("data").await?;
    eventually("the update is reviewed in time", async || {
        are_removed(tenant.state("data", Some("tenant")).await?)
    })
    .await?;
    ensure!(tenant.phase().await? == "Available");
    // The binder and the user who restores a cluster may write it.
    let restored = tenant.state("data", None).await?;
    restored.map_err(anyhow::Error::msg)?;
    eventually("the volume is Bound", async || {
        let phase = tenant.phase().await?;
        anyhow::Ok((phase == "Bound").then_some(()))
    })
    .await?;
    // What a user changes on a bound claim is not concerned.
    let (claim, warning) = match tenant.state("data", Some("tenant")).await? {
        Ok(updated) => updated,
        Err(refusal) => anyhow::bail!(refusal),
    };
    ensure!(annotations(&claim).len() >= 2 && warning.is_empty());
    Ok(())
}

/// Where the controllers of Kubernetes share one user, this user creates claims from templates, which
/// tenants write, and may change volumes.
async fn a_controller(space: Space) -> Result<Tenant> {
    let tenant = Tenant::new(space).await?;
    let space = &tenant.space;
    let own = format!("--namespace={}", space.name);
    let user = format!("--user={CONTROLLER}");
    let bind = ["create", "rolebinding", "controller", "--clusterrole=edit"];
    let bind = [&bind[..], &[&user, &own]].concat();
    space.cluster.kubectl(&bind).await?;
    let binder = "--clusterrole=system:controller:persistent-volume-binder";
    let bind = ["create", "clusterrolebinding", &space.name, binder, &user];
    space.cluster.kubectl(&bind).await?;
    let may = ["auth", "can-i", "update", "pv", "--as", CONTROLLER];
    eventually("it may change volumes", async || {
        // kubectl fails where the answer is no.
        space.cluster.kubectl(&may).await.map(drop)
    })
    .await?;
    Ok(tenant)
}

#[tokio::test]
async fn a_template_does_not_state_that_its_claim_is_bound() -> Result<()> {
    let tenant = a_controller(Space::new(guarded().await?, "template").await?).await?;
    let mut attempts = 0;
    eventually("the claim is reviewed in time", async || {
        attempts += 1;
        let name = format!("of-a-template-{attempts}");
        are_removed(tenant.claim(&name, Some(CONTROLLER)).await?)
    })
    .await?;
    ensure!(tenant.phase().await? == "Available");
    // The binder is one of the controllers.
    tenant.pending("data").await?;
    let bound = tenant.state("data", Some(CONTROLLER)).await?;
    let (claim, warning) = bound.map_err(anyhow::Error::msg)?;
    ensure!(annotations(&claim).len() == 2 && warning.is_empty());
    Ok(())
}

#[tokio::test]
async fn without_the_webhook_the_claim_of_such_a_template_is_refused() -> Result<()> {
    let tenant = a_controller(Space::new(bare().await?, "template").await?).await?;
    let mut attempts = 0;
    eventually("the policy is in effect", async || {
        attempts += 1;
        let name = format!("of-a-template-{attempts}");
        let Err(refusal) = tenant.claim(&name, Some(CONTROLLER)).await? else {
            anyhow::bail!("created");
        };
        ensure!(
            refusal.contains("only users who may patch or update persistentvolumes"),
            "{refusal}"
        );
        Ok(())
    })
    .await
}

/// Neither by an update of the claim nor by one of its status.
#[tokio::test]
async fn without_the_webhook_such_an_update_is_refused() -> Result<()> {
    let space = Space::new(bare().await?, "later").await?;
    let own = format!("--namespace={}", space.name);
    for command in [
        "create role statuses --verb=patch --resource=persistentvolumeclaims/status",
        "create rolebinding statuses --role=statuses --user=tenant",
    ] {
        let command: Vec<_> = command.split(' ').chain([own.as_str()]).collect();
        space.cluster.kubectl(&command).await?;
    }
    let tenant = Tenant::new(space).await?;
    tenant.pending("data").await?;
    // A dry run: before the policy is in effect, such a claim would get the volume.
    let annotations = json!({"pv.kubernetes.io/bind-completed": "yes"});
    let probe = json!(claim(
        "probe",
        json!({"metadata": {"annotations": annotations}})
    )?);
    eventually("the policy is in effect", async || {
        let request = Request::post(format!("{}?dryRun=All", tenant.path()))
            .header("content-type", "application/json");
        let refused = tenant.send(request, Some("tenant"), &probe).await?;
        ensure!(refused.is_err(), "created");
        Ok(())
    })
    .await?;
    for of in ["data", "data/status"] {
        let Err(refusal) = tenant.state(of, Some("tenant")).await? else {
            anyhow::bail!("{of} was changed");
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

/// Such a claim would get the parked volume: no user may create it, not even an administrator.
#[tokio::test]
async fn no_claim_has_the_name_that_a_parked_volume_names() -> Result<()> {
    let space = Space::new(bare().await?, "parked").await?;
    let system = Api::namespaced(space.cluster.client(), "volume-warden");
    let parked = claim("parked-1", json!({}))?;
    eventually("the policy is in effect", async || {
        let refused = system.create(&dry_run(), &parked).await;
        let refusal = refused.err().map(|error| error.to_string());
        let refusal = refusal.context("created")?;
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
