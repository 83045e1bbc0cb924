//! Clusters for outages. One test at a time uses a cluster, because a webhook configuration
//! affects all of it.

use super::{latency::Cost, users::Users};
use crate::support::{
    BINARY, Space, claim, dry_run, installed, manifests, repository,
    shared::Shared,
    turns::{Place, Turn, first_free},
    webhooks_answer,
};
use anyhow::{Result, ensure};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::{Api, api::PostParams};
use serde_json::json;
use std::collections::BTreeSet;
use volume_warden_controlplane::{Cluster, Interposer, Mark, Warden, WardenBuilder, eventually};

pub const SERVICE: &str = "volume-warden.volume-warden.svc";
/// An outage affects a whole cluster. Most of them are spent waiting, so three at a time leave
/// less of the processor unused than two.
static CLUSTERS: [Place; 3] = [const { Place::new() }; 3];
/// The StorageClass whose volumes are retained and reused.
pub const POOL: &str = "pool";

/// A healthy cluster for the exclusive use of one scenario.
pub struct OutageFixture {
    pub cluster: Shared,
    pub users: Users,
    pub warden: Warden,
    /// Intercepts requests from Volume Warden to the API server.
    pub interposer: Interposer,
    began: Mark,
    _turn: Turn,
}

impl OutageFixture {
    /// Waits for a free cluster, starts Volume Warden, and creates the objects that users have
    /// before the outage.
    pub async fn open(label: &str) -> Result<Self> {
        let (cluster, turn) = first_free(&CLUSTERS, "outages", start).await?;
        cluster.webhooks().serve(SERVICE, vec![]);
        // Restores a Service that an earlier test deleted. Volume Warden repairs the caBundle.
        manifests::apply(&cluster, &repository().join("manifests")).await?;
        let interposer =
            Interposer::for_service_account(&cluster, "volume-warden", "volume-warden").await?;
        let warden = builder(&cluster, &interposer).serving().start().await?;
        webhooks_answer(&cluster.client()).await?;
        let users = Users::settle(Space::new(cluster.clone(), label).await?).await?;
        let began = cluster.audit().mark()?;
        Ok(Self {
            cluster,
            users,
            warden,
            interposer,
            began,
            _turn: turn,
        })
    }

    /// Kills Volume Warden. [`Self::successor`] builds its replacement.
    pub fn kill(&self) -> Result<()> {
        self.warden.process().kill()?;
        self.cluster.webhooks().serve(SERVICE, vec![]);
        Ok(())
    }

    /// Builds a new process with the same identity, which need not wait for its predecessor's
    /// Lease to expire.
    pub fn successor(&self) -> WardenBuilder<'_> {
        builder(&self.cluster, &self.interposer)
    }

    /// Waits until the API server knows that Volume Warden is not available.
    pub async fn webhooks_are_unavailable(&self) -> Result<()> {
        let claims = &self.users.space.claims;
        eventually("no review is answered", async || {
            let probe = claim("probe", json!({}))?;
            let created = claims.create(&dry_run(), &probe).await?;
            anyhow::Ok(created.metadata.finalizers.is_none())
        })
        .await
    }

    /// Performs all operations of users while no review is answered. Checks that all succeed, and
    /// that the API server calls only the webhooks in the table of docs/operations/webhook-latency.md.
    pub async fn users_are_unaffected(&self) -> Result<()> {
        self.users.live().await?;
        self.users.bind_late().await?;
        let documented = Cost::documented()?;
        // The cluster's controllers create users' volumes and claims with a delay.
        let seen = eventually(
            "every request of the documented table was sent",
            async || {
                let seen = self.unasked()?;
                let mut missed = documented
                    .iter()
                    .filter(|cost| !seen.contains(&cost.asked()) && !cost.is_optional());
                let missed = missed.next();
                ensure!(
                    missed.is_none(),
                    "no request of users was one of these: {missed:?}; {seen:#?}"
                );
                Ok(Some(seen))
            },
        )
        .await?;
        let rest: Vec<_> = seen
            .iter()
            .filter(|seen| !documented.iter().any(|cost| cost.asked() == **seen))
            .collect();
        ensure!(
            rest.is_empty(),
            "docs/operations/webhook-latency.md does not document {rest:#?}"
        );
        let calls = self.cluster.audit().since(self.began)?;
        let mut of_pods = calls.iter().filter(|call| call.resource == "pods");
        let system =
            of_pods.find(|call| call.namespace == "kube-system" && !call.unasked.is_empty());
        ensure!(system.is_none(), "the cluster's own pods wait: {system:?}");
        Ok(())
    }

    /// By resource and operation, the webhooks that failed for one request.
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

    /// Waits until reviews are answered again, and until the missed work is done.
    pub async fn recovers(&self) -> Result<()> {
        webhooks_answer(&self.cluster.client()).await?;
        self.users.are_whole().await
    }
}

/// The webhooks that were called for one request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// The resource with its subresource.
    pub resource: String,
    /// The operation as admission names it.
    pub operation: String,
    pub webhooks: BTreeSet<String>,
}

/// Admission's name of a verb that writes.
fn operation(verb: &str) -> &'static str {
    match verb {
        "create" => "CREATE",
        "delete" | "deletecollection" => "DELETE",
        _ => "UPDATE",
    }
}

fn builder<'a>(cluster: &'a Cluster, interposer: &Interposer) -> WardenBuilder<'a> {
    Warden::builder(cluster, BINARY)
        .kubeconfig(interposer.kubeconfig())
        .arg("--leader-elect-identity=outages")
}

async fn start(name: &str) -> Result<Cluster> {
    let cluster = installed(name, "manifests").await?;
    let class = serde_json::from_value(json!({
        "metadata": {"name": POOL}, "provisioner": "kubernetes.io/host-path",
        "reclaimPolicy": "Retain",
    }))?;
    let classes: Api<StorageClass> = Api::all(cluster.client());
    classes.create(&PostParams::default(), &class).await?;
    Ok(cluster)
}
