//! The clusters that the outages happen to, one after the other: a webhook configuration is the whole cluster's.

use super::{latency::Cost, users::Users};
use crate::support::{
    BINARY, Space, claim, dry_run, installed, repository,
    turns::{Place, Turn, first_free},
    webhooks_answer,
};
use anyhow::{Result, ensure};
use serde_json::json;
use std::collections::BTreeSet;
use volume_warden_controlplane::{Cluster, Interposer, Mark, Warden, WardenBuilder, eventually};

pub const SERVICE: &str = "volume-warden.volume-warden.svc";
/// An outage is a whole cluster's.
static WARDS: [Place; 2] = [const { Place::new() }; 2];
/// Whose volumes are kept and given back.
pub const POOL: &str = "pool";

/// A healthy cluster, and the turn of one scenario to spoil it.
pub struct Ward {
    pub cluster: &'static Cluster,
    pub users: Users,
    pub warden: Warden,
    /// Between Volume Warden and the API server.
    pub between: Interposer,
    began: Mark,
    _turn: Turn,
}

impl Ward {
    /// In its turn, with Volume Warden at work and everything that users had before.
    pub async fn open(label: &str) -> Result<Self> {
        let (cluster, turn) = first_free(&WARDS, "outages", start).await?;
        cluster.webhooks().serve(SERVICE, vec![]);
        // A Service that a client deleted is there again; a caBundle is Volume Warden's to mend.
        let manifests = repository().join("manifests");
        cluster.apply_kustomization(manifests).await?;
        let account = cluster
            .service_account_kubeconfig("volume-warden", "volume-warden", None)
            .await?;
        let between = Interposer::start(cluster, account)?;
        let warden = builder(cluster, &between).serving().start().await?;
        webhooks_answer(&cluster.client()).await?;
        let users = Users::settle(Space::new(cluster, label).await?).await?;
        let began = cluster.audit().mark()?;
        Ok(Self {
            cluster,
            users,
            warden,
            between,
            began,
            _turn: turn,
        })
    }

    /// Volume Warden dies, and another is made ready to start in its place.
    pub fn kill(&self) -> Result<()> {
        self.warden.process().kill()?;
        self.cluster.webhooks().serve(SERVICE, vec![]);
        Ok(())
    }

    /// A new process, of the same identity: it need not wait for the Lease of its predecessor to expire.
    pub fn successor(&self) -> WardenBuilder<'_> {
        builder(self.cluster, &self.between)
    }

    /// The API server knows that Volume Warden is not available.
    pub async fn nobody_answers(&self) -> Result<()> {
        let claims = &self.users.space.claims;
        eventually("no review is answered", async || {
            let probe = claim("probe", json!({}))?;
            let created = claims.create(&dry_run(), &probe).await?;
            anyhow::Ok(created.metadata.finalizers.is_none())
        })
        .await
    }

    /// Everything that users do, while no review is answered. All of it succeeds, and nothing is asked but what README says.
    pub async fn nobody_notices(&self) -> Result<()> {
        self.users.live().await?;
        self.users.bind_late().await?;
        let reported = Cost::reported()?;
        // The cluster's controllers create volumes and claims for users in their own time.
        let seen = eventually("all that README reports was asked", async || {
            let seen = self.unasked()?;
            let mut missed = reported
                .iter()
                .filter(|cost| !seen.contains(&cost.asked()) && !cost.is_optional());
            let missed = missed.next();
            ensure!(
                missed.is_none(),
                "no request of users was one of these: {missed:?}; {seen:#?}"
            );
            Ok(Some(seen))
        })
        .await?;
        let rest: Vec<_> = seen
            .iter()
            .filter(|seen| !reported.iter().any(|cost| cost.asked() == **seen))
            .collect();
        ensure!(rest.is_empty(), "README does not report {rest:#?}");
        let calls = self.cluster.audit().since(self.began)?;
        let mut of_pods = calls.iter().filter(|call| call.resource == "pods");
        let system =
            of_pods.find(|call| call.namespace == "kube-system" && !call.unasked.is_empty());
        ensure!(system.is_none(), "the cluster's own pods wait: {system:?}");
        Ok(())
    }

    /// By resource and operation, the webhooks that did not answer to one request.
    pub fn unasked(&self) -> Result<BTreeSet<Asked>> {
        let calls = self.cluster.audit().since(self.began)?;
        let unasked = calls.iter().filter(|call| !call.unasked.is_empty());
        let asked = unasked.map(|call| Asked {
            resource: [call.resource.as_str(), call.subresource.as_str()]
                .join("/")
                .trim_end_matches('/')
                .to_owned(),
            operation: operation(&call.verb).to_owned(),
            webhooks: call.unasked.iter().cloned().collect(),
        });
        Ok(asked.collect())
    }

    /// The API server's webhooks are answered again, and what was missed is made good.
    pub async fn recovers(&self) -> Result<()> {
        webhooks_answer(&self.cluster.client()).await?;
        self.users.are_whole().await
    }
}

/// What one request asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// With its subresource.
    pub resource: String,
    /// As admission calls it.
    pub operation: String,
    pub webhooks: BTreeSet<String>,
}

/// What admission calls a verb that writes.
fn operation(verb: &str) -> &'static str {
    match verb {
        "create" => "CREATE",
        "delete" | "deletecollection" => "DELETE",
        _ => "UPDATE",
    }
}

fn builder<'a>(cluster: &'a Cluster, between: &Interposer) -> WardenBuilder<'a> {
    Warden::builder(cluster, BINARY)
        .kubeconfig(between.kubeconfig())
        .arg("--leader-elect-identity=outages")
}

async fn start(name: &str) -> Result<Cluster> {
    let cluster = installed(name, "manifests").await?;
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": POOL},
        "provisioner": "kubernetes.io/host-path", "reclaimPolicy": "Retain",
    });
    cluster
        .kubectl_with_stdin(&["apply", "-f", "-"], &class.to_string())
        .await?;
    Ok(cluster)
}
