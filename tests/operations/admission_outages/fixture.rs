//! Clusters for outages. One test at a time uses a cluster, because a webhook configuration affects
//! the whole cluster.

use super::{latency::Cost, users::Users};
use crate::support::{
    BINARY, Space, claim, dry_run, installed, manifests, repository,
    shared::Shared,
    turns::{Place, Turn, acquire_free},
    webhook_timeouts::raise_webhook_timeouts,
    webhooks_answer,
};
use anyhow::{Result, ensure};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::{Api, api::PostParams};
use serde_json::json;
use std::collections::BTreeSet;
use volume_warden_controlplane::{Cluster, Interposer, Mark, Warden, WardenBuilder, eventually};

pub const SERVICE: &str = "volume-warden.volume-warden.svc";
/// The tests of outages mostly wait, so three clusters use the CPU better than two.
static CLUSTERS: [Place; 3] = [const { Place::new() }; 3];
/// The StorageClass whose volumes are retained and reused.
pub const POOL: &str = "pool";

/// The webhooks for new claims in the mutating and in the validating configuration that
/// [`Authority::trusted_by`] replaces last.
///
/// [`Authority::trusted_by`]: super::stand_in::Authority::trusted_by
const LAST_REPLACED: [&str; 2] = [
    "claims.pvc-trash.volume-warden.dev",
    "reservations.pv-releaser.volume-warden.dev",
];

/// A healthy cluster for the exclusive use of one scenario.
pub struct OutageFixture {
    pub cluster: Shared,
    pub users: Users,
    pub warden: Warden,
    /// Intercepts requests from Volume Warden to the API server.
    pub interposer: Interposer,
    /// The position in the audit log after which requests are counted.
    mark: Mark,
    _turn: Turn,
}

impl OutageFixture {
    /// Waits for a free cluster, starts Volume Warden, and creates the objects that users have
    /// before the outage.
    pub async fn open(label: &str) -> Result<Self> {
        Self::open_after(label, async |_| Ok(())).await
    }

    /// Does the same as [`Self::open`], and gives every webhook except this one the longest
    /// timeout.
    pub async fn with_longest_timeouts(label: &str, except: Option<&str>) -> Result<Self> {
        Self::open_after(label, async |cluster| {
            raise_webhook_timeouts(cluster, except).await
        })
        .await
    }

    /// Does the same as [`Self::open`]. `prepare` changes the applied manifests before Volume
    /// Warden starts: once its webhooks answer, the API server has applied the change.
    async fn open_after(
        label: &str,
        prepare: impl AsyncFnOnce(&Cluster) -> Result<()>,
    ) -> Result<Self> {
        let (cluster, turn) = acquire_free(&CLUSTERS, "outages", start_cluster).await?;
        cluster.webhooks().serve(SERVICE, vec![]);
        // Restores the Service if an earlier test deleted it. Volume Warden repairs the caBundle.
        manifests::apply(&cluster, &repository().join("manifests")).await?;
        prepare(&cluster).await?;
        let interposer =
            Interposer::for_service_account(&cluster, "volume-warden", "volume-warden").await?;
        let warden = builder(&cluster, &interposer).serving().start().await?;
        webhooks_answer(&cluster.client()).await?;
        let users = Users::create_before_outage(Space::new(cluster.clone(), label).await?).await?;
        let mark = cluster.audit().mark()?;
        Ok(Self {
            cluster,
            users,
            warden,
            interposer,
            mark,
            _turn: turn,
        })
    }

    /// Kills Volume Warden. [`Self::successor`] builds its replacement.
    pub fn kill(&self) -> Result<()> {
        self.warden.process().kill()?;
        self.cluster.webhooks().serve(SERVICE, vec![]);
        Ok(())
    }

    /// Builds a new process with the same identity in the Lease, which need not wait until the
    /// Lease of its predecessor expires.
    pub fn successor(&self) -> WardenBuilder<'_> {
        builder(&self.cluster, &self.interposer)
    }

    /// Waits until a claim is created without a finalizer, so that no review of it was answered.
    pub async fn webhooks_are_unavailable(&self) -> Result<()> {
        let claims = &self.users.space.claims;
        eventually("no review of a claim is answered", async || {
            let probe = claim("probe", json!({}))?;
            let created = claims.create(&dry_run(), &probe).await?;
            anyhow::Ok(created.metadata.finalizers.is_none())
        })
        .await
    }

    /// Waits until the API server trusts no webhook after [`Authority::trusted_by`], and counts
    /// requests from then on.
    ///
    /// [`Authority::trusted_by`]: super::stand_in::Authority::trusted_by
    pub async fn no_webhook_is_trusted(&mut self) -> Result<()> {
        let space = &self.users.space;
        self.mark = eventually("no webhook is trusted", async || {
            let before = self.cluster.audit().mark()?;
            space
                .claims
                .create(&dry_run(), &claim("probe", json!({}))?)
                .await?;
            let calls = self.cluster.audit().since(before)?;
            let mut probes = calls.iter().filter(|call| {
                call.namespace == space.name && call.resource == "persistentvolumeclaims"
            });
            let untrusted = probes.any(|call| {
                LAST_REPLACED
                    .iter()
                    .all(|webhook| call.failed_open.iter().any(|each| each == webhook))
            });
            ensure!(untrusted, "{calls:?}");
            Ok(Some(self.cluster.audit().mark()?))
        })
        .await?;
        Ok(())
    }

    /// Performs all operations of users while no review is answered. Checks that all succeed, and
    /// that the API server calls only the webhooks in the table of
    /// docs/operations/webhook-latency.md.
    pub async fn users_are_unaffected(&self) -> Result<()> {
        self.users.perform_all_operations().await?;
        self.users.bind_volume_being_deleted().await?;
        let documented = Cost::documented()?;
        // The cluster's controllers create users' volumes and claims with a delay.
        let failed_open = eventually(
            "webhooks failed open for every request in the documented table",
            async || {
                let failed_open = self.failed_open()?;
                let mut missing = documented.iter().filter(|cost| {
                    !failed_open.contains(&cost.webhook_calls()) && !cost.is_optional()
                });
                let missing = missing.next();
                ensure!(
                    missing.is_none(),
                    "no request of users was {missing:?}; webhooks failed open for {failed_open:#?}"
                );
                Ok(Some(failed_open))
            },
        )
        .await?;
        let undocumented: Vec<_> = failed_open
            .iter()
            .filter(|calls| {
                !documented
                    .iter()
                    .any(|cost| cost.webhook_calls() == **calls)
            })
            .collect();
        ensure!(
            undocumented.is_empty(),
            "docs/operations/webhook-latency.md does not document {undocumented:#?}"
        );
        let calls = self.cluster.audit().since(self.mark)?;
        let mut pod_calls = calls.iter().filter(|call| call.resource == "pods");
        let system =
            pod_calls.find(|call| call.namespace == "kube-system" && !call.failed_open.is_empty());
        ensure!(
            system.is_none(),
            "a webhook was called for a pod in kube-system: {system:?}"
        );
        Ok(())
    }

    /// The requests without an answer from a webhook, each with the webhooks that failed.
    pub fn failed_open(&self) -> Result<BTreeSet<WebhookCalls>> {
        let calls = self.cluster.audit().since(self.mark)?;
        let failed_open = calls.iter().filter(|call| !call.failed_open.is_empty());
        let failed_open = failed_open.map(|call| WebhookCalls {
            resource: [call.resource.as_str(), call.subresource.as_str()]
                .join("/")
                .trim_end_matches('/')
                .to_owned(),
            operation: operation(&call.verb).to_owned(),
            webhooks: call.failed_open.iter().cloned().collect(),
        });
        Ok(failed_open.collect())
    }

    /// Waits until reviews are answered again, and until the missed work is done.
    pub async fn recovers(&self) -> Result<()> {
        webhooks_answer(&self.cluster.client()).await?;
        self.users.missed_work_is_done().await
    }
}

/// A kind of request, and the webhooks that the API server calls for one such request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WebhookCalls {
    /// The resource with its subresource.
    pub resource: String,
    /// The operation of the AdmissionReview.
    pub operation: String,
    pub webhooks: BTreeSet<String>,
}

/// The operation of the AdmissionReview of a request with this verb.
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

async fn start_cluster(name: &str) -> Result<Cluster> {
    let cluster = installed(name, "manifests").await?;
    let class = serde_json::from_value(json!({
        "metadata": {"name": POOL}, "provisioner": "kubernetes.io/host-path",
        "reclaimPolicy": "Retain",
    }))?;
    let classes: Api<StorageClass> = Api::all(cluster.client());
    classes.create(&PostParams::default(), &class).await?;
    Ok(cluster)
}
