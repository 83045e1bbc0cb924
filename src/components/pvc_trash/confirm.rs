//! The live reads of pvc-trash, for decisions that must not rest on the watches alone.

use super::recorded::recorded;
use crate::{
    cluster::{DEFAULT_CALL_TIMEOUT, LiveGet, Proof, ReconcileError, SharedList, server_time},
    objects::{
        Claim, Namespace, ObjectName, Volume, VolumeAttachment, VolumeSource,
        claim_metadata::ClaimMetadata,
        trash::{RecordedClaim, TrashRecord},
        volume::ClaimRef,
    },
    telemetry::Metrics,
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Maximum age of the reads on which a write of pvc-trash may rest.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Maximum difference between the clocks of this process and of the API server at which volumes are
/// purged.
const MAX_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Reads objects and the time from the API server.
pub struct Live {
    client: Client,
    claims: Arc<LiveGet<Claim>>,
    volumes: Arc<LiveGet<Volume>>,
    texts: Arc<LiveGet<ClaimMetadata>>,
    namespaces: Arc<LiveGet<Namespace>>,
    pub(super) attachments: Arc<SharedList<VolumeAttachment>>,
    pub(super) requesting: Arc<SharedList<Claim>>,
    pub(super) sources: Arc<SharedList<VolumeSource>>,
}

impl Live {
    /// Creates readers that use this client.
    pub fn new(metrics: &Arc<Metrics>, client: &Client) -> Arc<Self> {
        Arc::new(Self {
            client: client.clone(),
            claims: LiveGet::new(metrics.clone(), client),
            volumes: LiveGet::new(metrics.clone(), client),
            texts: LiveGet::new(metrics.clone(), client),
            namespaces: LiveGet::new(metrics.clone(), client),
            attachments: SharedList::new(metrics.clone(), client),
            requesting: SharedList::new(metrics.clone(), client),
            sources: SharedList::new(metrics.clone(), client),
        })
    }

    /// Returns the time by the clock of the API server.
    ///
    /// # Errors
    /// When it could not be read.
    pub async fn now(&self) -> Result<Timestamp, ReconcileError> {
        let now = server_time(&self.client, DEFAULT_CALL_TIMEOUT).await;
        now.map_err(ReconcileError::unread("the time of the API server"))
    }

    /// Returns the time of the API server. If `local`, the time of this process, differs from it
    /// by more than 5 minutes, returns the later of the two times: as the beginning of an undelete
    /// window, it keeps the data for longer.
    ///
    /// # Errors
    /// When the time of the API server could not be read.
    pub async fn window_start(&self, local: Timestamp) -> Result<Timestamp, ReconcileError> {
        let now = self.now().await?;
        Ok(if is_skewed(now, local) {
            now.max(local)
        } else {
            now
        })
    }

    /// Proves that the claim with this uid does not exist.
    ///
    /// # Errors
    /// When it exists or could not be read.
    pub async fn claim_is_deleted(&self, claim: &ClaimRef) -> Result<Proof, ReconcileError> {
        let live = self
            .claims
            .read(&claim.name, DEFAULT_CALL_TIMEOUT)
            .await
            .map_err(ReconcileError::unread(format!("the claim {}", claim.name)))?;
        match &live.value {
            Some(found) if found.uid == claim.uid => Err(ReconcileError::new(format!(
                "the claim {} still exists",
                claim.name
            ))),
            _ => Ok(live.proof(MAX_AGE)),
        }
    }

    /// Reads a claim, with the proof of what was read.
    ///
    /// # Errors
    /// When it could not be read.
    pub async fn claim(&self, name: &ObjectName) -> Result<(Option<Claim>, Proof), ReconcileError> {
        let live = self
            .claims
            .read(name, DEFAULT_CALL_TIMEOUT)
            .await
            .map_err(ReconcileError::unread(format!("the claim {name}")))?;
        let proof = live.proof(MAX_AGE);
        Ok((live.value, proof))
    }

    /// Reads a volume; none if it does not exist.
    ///
    /// # Errors
    /// When it could not be read.
    pub async fn volume(&self, name: &ObjectName) -> Result<Option<Volume>, ReconcileError> {
        let live = self.volumes.get(name, DEFAULT_CALL_TIMEOUT).await;
        live.map_err(ReconcileError::unread(format!("the volume {name}")))
    }

    /// Replaces the volume of this name by what a live read shows, or removes it if it does not
    /// exist any more or is recorded for another claim. The watch that showed it may be minutes
    /// late.
    ///
    /// # Errors
    /// When the volume could not be read until `until`.
    pub async fn refresh(
        &self,
        volumes: &mut Vec<(ObjectName, Arc<Volume>)>,
        name: &ObjectName,
        until: Instant,
    ) -> kube::Result<()> {
        let limit = until.saturating_duration_since(Instant::now());
        let mut live = self.volumes.get(name, limit).await?;
        let claim = |volume: &Volume| Some(recorded(volume)?.claim.uid.clone());
        volumes.retain_mut(|(each, cached)| {
            if each != name {
                return true;
            }
            let same = live
                .take()
                .filter(|live| live.uid == cached.uid && claim(live) == claim(cached));
            let Some(live) = same else {
                return false;
            };
            *cached = Arc::new(live);
            true
        });
        Ok(())
    }

    /// Reads a namespace; none if it does not exist.
    ///
    /// # Errors
    /// When it could not be read within `limit`.
    pub async fn namespace(&self, name: &str, limit: Duration) -> kube::Result<Option<Namespace>> {
        let name = ObjectName::cluster_scoped(name);
        self.namespaces.get(&name, limit).await
    }

    /// Returns the uid of the namespace; none if it does not exist.
    ///
    /// # Errors
    /// When the namespace could not be read within `limit`.
    pub async fn namespace_uid(
        &self,
        namespace: &str,
        limit: Duration,
    ) -> kube::Result<Option<Box<str>>> {
        let live = self.namespace(namespace, limit).await?;
        Ok(live.map(|live| live.uid))
    }

    /// Returns the uid of the namespace, and the time by the clock of the API server.
    ///
    /// # Errors
    /// When one of them could not be read within `limit`.
    pub async fn namespace_and_time(
        &self,
        namespace: &str,
        limit: Duration,
    ) -> kube::Result<(Option<Box<str>>, Timestamp)> {
        let uid = self.namespace_uid(namespace, limit);
        let time = server_time(&self.client, limit);
        futures::try_join!(uid, time)
    }

    /// Returns whether the namespace of the record's claim still exists, with the recorded uid.
    /// False if the record lacks that uid.
    ///
    /// # Errors
    /// When the namespace could not be read.
    pub async fn is_same_namespace(&self, record: &TrashRecord) -> Result<bool, ReconcileError> {
        let namespace = &record.claim.namespace;
        let found = self.namespace(namespace, DEFAULT_CALL_TIMEOUT).await;
        let found = found.map_err(ReconcileError::unread("the namespace"))?;
        Ok(found.is_some_and(|namespace| record.is_of(Some(&namespace.uid))))
    }

    /// Adds to the record what only live reads show: the uid of the claim's namespace, and the
    /// claim's labels and annotations. Adds nothing if the claim has been deleted. Returns the name
    /// of the volume that the claim names; empty if it names none, or has been deleted.
    ///
    /// The claim's uid is known before the namespace is read, and the claim exists after that. So
    /// the namespace is the one in which the claim was created: a namespace is deleted only after
    /// all of its claims.
    ///
    /// # Errors
    /// When one of them could not be read. Both reads together take at most `limit`.
    pub async fn complete(
        &self,
        claim: &mut RecordedClaim,
        limit: Duration,
    ) -> kube::Result<Box<str>> {
        let until = Instant::now() + limit;
        let Some(namespace) = self.namespace(&claim.namespace, limit).await? else {
            return Ok(Box::default());
        };
        let rest = until.saturating_duration_since(Instant::now());
        let name = ObjectName::new(claim.namespace.as_str(), claim.name.as_str());
        let live = self.texts.get(&name, rest).await?;
        let Some(live) = live.filter(|live| *live.uid == *claim.uid) else {
            return Ok(Box::default());
        };
        claim.namespace_uid = Some(namespace.uid.to_string());
        claim.labels = live.labels;
        claim.annotations = live.annotations;
        Ok(live.volume_name)
    }

    /// Does the same as [`Self::complete`], for the reconciler.
    ///
    /// # Errors
    /// When the namespace or the claim could not be read.
    pub async fn complete_record(&self, claim: &mut RecordedClaim) -> Result<(), ReconcileError> {
        let completed = self.complete(claim, DEFAULT_CALL_TIMEOUT).await;
        completed.map(drop).map_err(ReconcileError::unread(
            "the namespace of the claim, or the claim,",
        ))
    }
}

/// Returns whether the two times differ by more than `MAX_SKEW`, so that one of the clocks is
/// wrong.
pub fn is_skewed(server: Timestamp, local: Timestamp) -> bool {
    server.duration_since(local).abs() > MAX_SKEW
}
