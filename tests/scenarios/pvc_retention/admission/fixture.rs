//! Creates claims as the StatefulSet controller does, and checks what the webhook of
//! `pvc-retention` adds to them.
//!
//! Claims are created in a dry run: nothing is stored, so no reconciler affects the response. The
//! webhooks add the finalizer of `pvc-protection` to every claim that they review, so a claim
//! without the finalizer was not reviewed.

use crate::{
    pvc_retention::support::{DELETE_RETAIN, MARK, Policy, SetSpace, failed_reads, set},
    support::{claim, failed_open, refusal, shared::Shared},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{
    Client,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use volume_warden_controlplane::{Cluster, eventually};

/// The user of the StatefulSet controller.
pub const CONTROLLER: &str = "system:serviceaccount:kube-system:statefulset-controller";
pub const PROTECTION: &str = "kubernetes.io/pvc-protection";
/// A part of the message that refuses a claim whose set does not exist according to a live read.
const REFUSAL: &str = "is not created: no controller would delete the claim";

/// Creates the claim in a dry run as `user`, with all permissions.
async fn dry_run_as(
    user: &str,
    client: &Client,
    namespace: &str,
    claim: &PersistentVolumeClaim,
) -> kube::Result<PersistentVolumeClaim> {
    let url = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims?dryRun=All");
    let body = serde_json::to_vec(claim).map_err(kube::Error::SerdeError)?;
    let request = http::Request::post(url)
        .header("content-type", "application/json")
        .header("impersonate-user", user)
        .header("impersonate-group", "system:masters")
        .body(body)
        .map_err(kube::Error::HttpError)?;
    client.request(request).await
}

/// Waits until the webhook of `pvc-retention` adds an owner reference to a new claim, whatever
/// other components are enabled.
pub async fn retention_webhook_answers(cluster: &Cluster) -> Result<()> {
    let client = cluster.client();
    let sets = kube::Api::namespaced(client.clone(), "default");
    let probe = set("probe", 0, DELETE_RETAIN, json!({}))?;
    sets.create(&PostParams::default(), &probe).await?;
    let wanted = claim("data-probe-0", json!({}))?;
    eventually("the retention webhook answers", async || {
        let created = dry_run_as(CONTROLLER, &client, "default", &wanted).await?;
        anyhow::Ok(created.metadata.owner_references.is_some())
    })
    .await?;
    sets.delete("probe", &DeleteParams::default()).await?;
    Ok(())
}

/// The uid in the owner reference of a claim to its set, and the uid in the marker.
#[derive(Clone, Copy, Default)]
pub struct OwnerAndMarker<'a> {
    pub owner: Option<&'a str>,
    pub marker: Option<&'a str>,
}

/// Neither an owner reference nor a marker.
pub const NEITHER: OwnerAndMarker<'static> = OwnerAndMarker {
    owner: None,
    marker: None,
};

impl OwnerAndMarker<'_> {
    /// Fails unless the claim has this owner and no other, by a complete owner reference, and this
    /// marker.
    pub fn matches(&self, claim: &PersistentVolumeClaim) -> Result<()> {
        let metadata = &claim.metadata;
        let owners = metadata.owner_references.as_deref().unwrap_or_default();
        let uids: Vec<_> = owners.iter().map(|owner| owner.uid.as_str()).collect();
        ensure!(uids == Vec::from_iter(self.owner), "owners: {owners:?}");
        let complete = owners.iter().all(|owner| {
            (owner.api_version.as_str(), owner.kind.as_str()) == ("apps/v1", "StatefulSet")
                && owner.controller == Some(true)
                && owner.block_owner_deletion == Some(true)
        });
        ensure!(complete, "owners: {owners:?}");
        let annotations = metadata.annotations.clone().unwrap_or_default();
        let marker = annotations.get(MARK).map(String::as_str);
        ensure!(marker == self.marker, "annotations: {annotations:?}");
        Ok(())
    }
}

/// A namespace in which a test creates sets and claims.
pub struct AdmissionFixture {
    pub sets: SetSpace,
}

impl AdmissionFixture {
    pub async fn new(cluster: Shared, label: &str) -> Result<Self> {
        let sets = SetSpace::new(cluster, label).await?;
        Ok(Self { sets })
    }

    /// Creates a set with three replicas, and returns its uid. Its first pod is never scheduled, so
    /// Kubernetes creates only the first claim.
    pub async fn create_set(&self, name: &str, policy: Policy, changes: Value) -> Result<String> {
        let unschedulable = json!({"spec": {
            "podManagementPolicy": "OrderedReady",
            "template": {"spec": {"nodeName": null, "schedulerName": "absent"}},
        }});
        let mut wanted = serde_json::to_value(set(name, 3, policy, unschedulable)?)?;
        json_patch::merge(&mut wanted, &changes);
        let wanted = serde_json::from_value(wanted)?;
        let created = self
            .sets
            .sets
            .create(&PostParams::default(), &wanted)
            .await?;
        created.metadata.uid.context("a uid")
    }

    /// Creates the claim in a dry run as `user`.
    pub async fn dry_run(
        &self,
        user: &str,
        claim: &PersistentVolumeClaim,
    ) -> kube::Result<PersistentVolumeClaim> {
        let space = &self.sets.space;
        dry_run_as(user, &space.cluster.client(), &space.name, claim).await
    }

    /// Checks that a claim that `user` creates is reviewed, and gets this owner and marker.
    pub async fn is_created_by(
        &self,
        user: &str,
        claim: PersistentVolumeClaim,
        expected: OwnerAndMarker<'_>,
    ) -> Result<()> {
        let check = |created| is_reviewed_with(created, expected);
        self.check_dry_run(user, &claim, LiveReads::MayTimeOut, check)
            .await
    }

    /// As [`Self::is_created`], while the scenario makes the live reads of the set fail.
    pub async fn is_created_without_live_read(
        &self,
        name: &str,
        expected: OwnerAndMarker<'_>,
    ) -> Result<()> {
        let claim = claim(name, json!({}))?;
        let check = |created| is_reviewed_with(created, expected);
        self.check_dry_run(CONTROLLER, &claim, LiveReads::Fail, check)
            .await
    }

    /// Creates the claim in a dry run, and checks the response. On a busy machine the webhook may
    /// answer too late, or its live read of the set may time out. If the check fails and
    /// [`Self::timeouts`] shows such a case, the claim is created again. Otherwise the failed check
    /// is final.
    async fn check_dry_run(
        &self,
        user: &str,
        claim: &PersistentVolumeClaim,
        reads: LiveReads,
        check: impl Fn(kube::Result<PersistentVolumeClaim>) -> Result<()>,
    ) -> Result<()> {
        eventually("the claim is reviewed in time", async || {
            let before = self.timeouts(reads).await?;
            let checked = check(self.dry_run(user, claim).await);
            if checked.is_err() && self.timeouts(reads).await? != before {
                return checked.map(|()| None);
            }
            Ok(Some(checked))
        })
        .await?
    }

    /// What has timed out so far on a busy machine: the API server's counts of calls of claim
    /// webhooks that failed open, and the number of failed live reads of sets in this namespace.
    pub async fn timeouts(&self, reads: LiveReads) -> Result<(String, usize)> {
        let failed_open = failed_open(&self.sets.space.cluster, "claims.").await?;
        let failed_reads = match reads {
            LiveReads::MayTimeOut => self.failed_reads()?,
            LiveReads::Fail => 0,
        };
        Ok((failed_open, failed_reads))
    }

    /// The number of failed live reads of sets in this namespace so far, by the logs of all Volume
    /// Wardens of the cluster.
    fn failed_reads(&self) -> Result<usize> {
        let space = &self.sets.space;
        let mut all = 0;
        for file in std::fs::read_dir(space.cluster.dir())? {
            let file = file?;
            if file.file_name().to_string_lossy().starts_with("warden") {
                let log = std::fs::read(file.path())?;
                all += failed_reads(&String::from_utf8_lossy(&log), &space.name);
            }
        }
        Ok(all)
    }

    /// As [`Self::is_created_by`], for a claim that the StatefulSet controller creates.
    pub async fn is_created(&self, name: &str, expected: OwnerAndMarker<'_>) -> Result<()> {
        self.is_created_by(CONTROLLER, claim(name, json!({}))?, expected)
            .await
    }

    /// Deletes the set, and waits until it is deleted.
    pub async fn delete_set(&self, name: &str, parameters: &DeleteParams) -> Result<()> {
        self.sets.delete(name, parameters).await?;
        eventually("the set is deleted", async || {
            anyhow::Ok(self.sets.sets.get_opt(name).await?.is_none())
        })
        .await
    }

    /// Checks that the webhook refuses the claim of the StatefulSet controller, because the set
    /// does not exist.
    pub async fn is_refused(&self, name: &str) -> Result<()> {
        let claim = claim(name, json!({}))?;
        let check = |created| {
            let message = refusal(created)?;
            ensure!(message.contains(REFUSAL), "{message}");
            Ok(())
        };
        self.check_dry_run(CONTROLLER, &claim, LiveReads::MayTimeOut, check)
            .await
    }
}

/// Whether a failed live read of the set explains an unexpected response.
#[derive(Clone, Copy)]
pub enum LiveReads {
    /// A live read may fail on a busy machine, and then another response is correct.
    MayTimeOut,
    /// The scenario makes every live read fail, and expects the response for that case.
    Fail,
}

/// Fails unless the claim was reviewed, and has this owner and marker.
fn is_reviewed_with(
    created: kube::Result<PersistentVolumeClaim>,
    expected: OwnerAndMarker<'_>,
) -> Result<()> {
    let created = created?;
    let finalizers = created.metadata.finalizers.as_deref().unwrap_or_default();
    ensure!(finalizers == [PROTECTION], "not reviewed: {finalizers:?}");
    expected.matches(&created)
}
