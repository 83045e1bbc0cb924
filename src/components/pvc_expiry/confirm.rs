//! The live reads without which pvc-expiry deletes no claim.

use super::{
    referrers::Referrers,
    restorable,
    rule::{Decision, View, decide},
};
use crate::{
    cluster::{DEFAULT_CALL_TIMEOUT, LiveGet, Proof, ReconcileError, SharedList, server_time},
    inventory::ReferencePath,
    objects::{
        Claim, CompactText, Namespace, ObjectName, Pod, StorageClass, Volume, trash::TrashRecord,
    },
    telemetry::Metrics,
};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use std::{sync::Arc, time::Duration};

/// Maximum age of the LIST of pods, the first of the live reads, when the deletion is sent; after a
/// LIST that took longer, see [`Evidence::proof`](crate::cluster::Evidence::proof).
const MAX_AGE: Duration = Duration::from_secs(30);
/// Maximum number of concurrent LISTs of pods.
const LISTS: usize = 2;

/// Reads live, from the API server, everything that the rule depends on, and what names a claim.
pub struct Live {
    client: Client,
    pods: Arc<SharedList<Pod>>,
    claims: Arc<LiveGet<Claim>>,
    volumes: Arc<LiveGet<Volume>>,
    classes: Arc<LiveGet<StorageClass>>,
    /// None if only one namespace is handled, because the permissions may not include namespaces
    /// then.
    namespaces: Option<Arc<LiveGet<Namespace>>>,
    /// Reads which workloads and custom resources name a claim.
    pub referrers: Referrers,
}

/// The result of one live evaluation of a claim.
pub struct Confirmed {
    /// What the rule decided from the live reads.
    pub decision: Decision,
    /// The claim as it was read live. A deletion tests its uid and `resourceVersion`.
    pub claim: Claim,
    /// The record that pvc-trash wrote on the claim's volume, if the data can be restored by it.
    /// Without this record the claim is not deleted.
    pub record: Option<TrashRecord>,
    /// Permits the deletion until the LIST of pods is older than [`MAX_AGE`]. Without it the claim
    /// cannot be deleted.
    pub proof: Proof,
}

impl Live {
    /// Creates readers that use this client. With `only`, the namespace of `--namespace`, no
    /// namespace is read, and none counts as excluded.
    pub fn new(
        metrics: &Arc<Metrics>,
        client: &Client,
        paths: Vec<ReferencePath>,
        only: Option<&str>,
    ) -> Self {
        let namespaces = || LiveGet::new(metrics.clone(), client);
        Self {
            client: client.clone(),
            pods: SharedList::limited(metrics.clone(), client, LISTS),
            claims: LiveGet::new(metrics.clone(), client),
            volumes: LiveGet::new(metrics.clone(), client),
            classes: LiveGet::new(metrics.clone(), client),
            namespaces: only.is_none().then(namespaces),
            referrers: Referrers::new(client.clone(), paths),
        }
    }

    /// Returns the present time of the API server.
    ///
    /// # Errors
    /// When it could not be read.
    async fn time(&self) -> Result<Timestamp, ReconcileError> {
        let time = server_time(&self.client, DEFAULT_CALL_TIMEOUT).await;
        time.map_err(ReconcileError::unread("the time of the API server"))
    }

    /// Decides about the claim by live reads, and by `observed`, since when this process watches.
    /// The present time is `local`, that of this process, or that of the API server if it is
    /// earlier, so that no clock that is ahead shortens a wait. The pods are read first, because
    /// the age of the proof counts from that LIST.
    ///
    /// # Errors
    /// When a read failed, the claim with this `uid` does not exist any more, or its namespace has
    /// opted out.
    pub async fn confirm(
        &self,
        name: &ObjectName,
        uid: &CompactText,
        observed: Option<Timestamp>,
        local: Timestamp,
    ) -> Result<Confirmed, ReconcileError> {
        let pods = self
            .pods
            .list(&name.namespace)
            .await
            .map_err(ReconcileError::unread("the pods"))?;
        let claim = self
            .claims
            .get(name, DEFAULT_CALL_TIMEOUT)
            .await
            .map_err(ReconcileError::unread("the claim"))?;
        let Some(claim) = claim.filter(|claim| claim.uid == *uid) else {
            return Err(ReconcileError::new("the claim was deleted"));
        };
        // The StorageClass is read after the claim: see `disable` of pvc-trash, which waits for the
        // end of the announcement.
        let volume = self
            .volumes
            .get(
                &ObjectName::cluster_scoped(claim.volume_name.to_string()),
                DEFAULT_CALL_TIMEOUT,
            )
            .await
            .map_err(ReconcileError::unread("the volume"))?;
        let class = match &volume {
            Some(volume) => {
                self.classes
                    .get(
                        &ObjectName::cluster_scoped(&*volume.class),
                        DEFAULT_CALL_TIMEOUT,
                    )
                    .await
            }
            None => Ok(None),
        };
        let class = class.map_err(ReconcileError::unread("the StorageClass"))?;
        self.is_included(&name.namespace).await?;
        let server = self.time().await?;
        let decision = decide(&View {
            claim: &claim,
            volume: volume.as_ref(),
            class: class.as_ref(),
            used: !pods.value.is_unreferenced(name),
            observed,
            now: server.min(local),
        });
        let record = volume
            .as_ref()
            .and_then(|volume| restorable::record(volume, &claim).ok());
        Ok(Confirmed {
            decision,
            record: record.cloned(),
            claim,
            proof: pods.proof(MAX_AGE),
        })
    }

    /// Checks that the namespace exists and has not opted out. The watch may show that late.
    async fn is_included(&self, namespace: &Arc<str>) -> Result<(), ReconcileError> {
        let Some(namespaces) = &self.namespaces else {
            return Ok(());
        };
        let name = ObjectName::cluster_scoped(namespace.clone());
        let live = namespaces
            .get(&name, DEFAULT_CALL_TIMEOUT)
            .await
            .map_err(ReconcileError::unread("the namespace"))?;
        match live.map(|live| live.excluded) {
            Some(false) => Ok(()),
            Some(true) => Err(ReconcileError::new("the namespace has opted out")),
            None => Err(ReconcileError::new("the namespace does not exist")),
        }
    }
}

#[cfg(test)]
#[path = "confirm_tests.rs"]
mod tests;
