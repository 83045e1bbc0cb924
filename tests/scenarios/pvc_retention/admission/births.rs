//! Creates claims in place of the StatefulSet controller.
//!
//! Claims are created in a dry run: nothing is stored, so no reconciler affects the response.
//! Besides the stamps every reviewed claim gets the finalizer of pvc-protection; without the
//! finalizer the webhook was not called.

use crate::{
    pvc_retention::support::{DELETE_RETAIN, MARK, Policy, SetSpace, set, unread},
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

pub const CONTROLLER: &str = "system:serviceaccount:kube-system:statefulset-controller";
pub const PROTECTION: &str = "kubernetes.io/pvc-protection";
/// In the refusal of a claim whose set is gone by a live read.
const LEAKS: &str = "is not created: no controller would delete the claim";

/// Creates the claim in a dry run as `user`, who has all permissions.
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

/// Waits until the retention webhook answers for new sets, with any other components.
pub async fn stamps_are_given(cluster: &Cluster) -> Result<()> {
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

/// The uids in a claim's owner reference and mark.
#[derive(Clone, Copy, Default)]
pub struct Stamps<'a> {
    pub owner: Option<&'a str>,
    pub mark: Option<&'a str>,
}

pub const NOTHING: Stamps<'static> = Stamps {
    owner: None,
    mark: None,
};

impl Stamps<'_> {
    pub fn are_on(&self, claim: &PersistentVolumeClaim) -> Result<()> {
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
        let mark = annotations.get(MARK).map(String::as_str);
        ensure!(mark == self.mark, "annotations: {annotations:?}");
        Ok(())
    }
}

/// A namespace where claims are created.
pub struct Births(pub SetSpace);

impl Births {
    pub async fn new(cluster: Shared, label: &str) -> Result<Self> {
        Ok(Self(SetSpace::new(cluster, label).await?))
    }

    /// Creates a set of three whose first pod never runs, so that Kubernetes creates only its
    /// first claim; returns the set's uid.
    pub async fn set(&self, name: &str, policy: Policy, changes: Value) -> Result<String> {
        let starved = json!({"spec": {
            "podManagementPolicy": "OrderedReady",
            "template": {"spec": {"nodeName": null, "schedulerName": "absent"}},
        }});
        let mut wanted = serde_json::to_value(set(name, 3, policy, starved)?)?;
        json_patch::merge(&mut wanted, &changes);
        let wanted = serde_json::from_value(wanted)?;
        let created = self.0.sets.create(&PostParams::default(), &wanted).await?;
        created.metadata.uid.context("a uid")
    }

    pub async fn dry_run(
        &self,
        user: &str,
        claim: &PersistentVolumeClaim,
    ) -> kube::Result<PersistentVolumeClaim> {
        let space = &self.0.space;
        dry_run_as(user, &space.cluster.client(), &space.name, claim).await
    }

    /// The claim is created with these stamps.
    pub async fn is_born_to(
        &self,
        user: &str,
        claim: PersistentVolumeClaim,
        stamps: Stamps<'_>,
    ) -> Result<()> {
        let check = |created| are_on_reviewed(created, stamps);
        self.answer(user, &claim, Reads::MayBeLate, check).await
    }

    /// As [`Self::is_born`], while the scenario makes the live reads of the set fail.
    pub async fn is_born_unread(&self, name: &str, stamps: Stamps<'_>) -> Result<()> {
        let claim = claim(name, json!({}))?;
        let check = |created| are_on_reviewed(created, stamps);
        self.answer(CONTROLLER, &claim, Reads::Fail, check).await
    }

    /// Creates the claim in a dry run, and checks the answer. On a busy machine the webhook may
    /// answer too late, or may not read the set in time. Only then, by the API server's counter or
    /// by the log, the claim is created again after a wrong answer.
    async fn answer(
        &self,
        user: &str,
        claim: &PersistentVolumeClaim,
        reads: Reads,
        check: impl Fn(kube::Result<PersistentVolumeClaim>) -> Result<()>,
    ) -> Result<()> {
        eventually("the claim is reviewed in time", async || {
            let before = self.late(reads).await?;
            let checked = check(self.dry_run(user, claim).await);
            if checked.is_err() && self.late(reads).await? != before {
                return checked.map(|()| None);
            }
            Ok(Some(checked))
        })
        .await?
    }

    /// What was late so far: the calls of the webhooks of claims without which the API server
    /// continued, and the reads of sets of this namespace.
    pub async fn late(&self, reads: Reads) -> Result<(String, usize)> {
        let unasked = failed_open(&self.0.space.cluster, "claims.").await?;
        let unread = match reads {
            Reads::MayBeLate => self.unread()?,
            Reads::Fail => 0,
        };
        Ok((unasked, unread))
    }

    /// The number of claims in the namespace so far whose sets could not be read in time.
    fn unread(&self) -> Result<usize> {
        let space = &self.0.space;
        let mut all = 0;
        for file in std::fs::read_dir(space.cluster.dir())? {
            let file = file?;
            if file.file_name().to_string_lossy().starts_with("warden") {
                let log = std::fs::read(file.path())?;
                all += unread(&String::from_utf8_lossy(&log), &space.name);
            }
        }
        Ok(all)
    }

    pub async fn is_born(&self, name: &str, stamps: Stamps<'_>) -> Result<()> {
        self.is_born_to(CONTROLLER, claim(name, json!({}))?, stamps)
            .await
    }

    pub async fn delete_set(&self, name: &str, parameters: &DeleteParams) -> Result<()> {
        self.0.delete(name, parameters).await?;
        eventually("the set is gone", async || {
            anyhow::Ok(self.0.sets.get_opt(name).await?.is_none())
        })
        .await
    }

    /// The StatefulSet controller may not create the claim, because its set is gone.
    pub async fn is_refused(&self, name: &str) -> Result<()> {
        let claim = claim(name, json!({}))?;
        let check = |created| {
            let message = refusal(created)?;
            ensure!(message.contains(LEAKS), "{message}");
            Ok(())
        };
        self.answer(CONTROLLER, &claim, Reads::MayBeLate, check)
            .await
    }
}

/// Whether a read of the set that fails makes another answer right.
#[derive(Clone, Copy)]
pub enum Reads {
    /// The read may fail on a busy machine.
    MayBeLate,
    /// The scenario makes it fail, and the answer is right nevertheless.
    Fail,
}

/// The claim was reviewed, and has these stamps.
fn are_on_reviewed(created: kube::Result<PersistentVolumeClaim>, stamps: Stamps<'_>) -> Result<()> {
    let created = created?;
    let finalizers = created.metadata.finalizers.as_deref().unwrap_or_default();
    ensure!(finalizers == [PROTECTION], "not reviewed: {finalizers:?}");
    stamps.are_on(&created)
}
