//! The live reads of a purge, which is final.

use super::{confirm::Live, restore_requests::requested};
use crate::{
    cluster::{Proof, ReconcileError, Store},
    objects::{ObjectName, VolumeSource, trash::TrashRecord},
};
use std::time::Duration;

/// Maximum age of the LISTs of the cluster on which a purge may rest. They take long in a large
/// cluster, and other reads follow them.
const LIST_MAX_AGE: Duration = Duration::from_secs(60);

impl Live {
    /// Checks by a live LIST that no claim which may get the volume requests it. The watch may not
    /// show a claim that was created just now.
    ///
    /// # Errors
    /// When a claim requests it, or the claims could not be listed.
    pub async fn is_unrequested(
        &self,
        volume: &ObjectName,
        record: &TrashRecord,
    ) -> Result<(), ReconcileError> {
        let live = self
            .requesting
            .list(&record.claim.namespace.as_str().into())
            .await
            .map_err(ReconcileError::unread("the claims of the namespace"))?;
        let found = live.value.objects().find(|(_, claim)| {
            requested(claim).is_some_and(|requested| *requested == *volume.name)
                && record.may_restore(&claim.uid)
        });
        // A claim in a namespace that was deleted and recreated does not get the volume, so it
        // does not prevent the purge.
        match found {
            Some((claim, _)) if self.is_same_namespace(record).await? => Err(ReconcileError::new(
                format!("the claim {claim} requests the volume"),
            )),
            _ => Ok(()),
        }
    }

    /// Returns another volume with the same data, by a live LIST, and the proof of what was read.
    /// An administrator may have created it to get the data back: a purge would delete its data,
    /// too.
    ///
    /// # Errors
    /// When the volumes could not be listed, or the volume is not among them: it was removed by
    /// force, and only its copy says where its data is.
    pub async fn volume_with_same_data(
        &self,
        volume: &ObjectName,
    ) -> Result<(Option<ObjectName>, Proof), ReconcileError> {
        let live = self
            .sources
            .list(&volume.namespace)
            .await
            .map_err(ReconcileError::unread("the volumes"))?;
        if live.value.get(volume).is_none() {
            return Err(ReconcileError::new(
                "a live LIST of volumes does not contain the volume",
            ));
        }
        let other = volume_with_same_data(&live.value, volume);
        Ok((other, live.proof(LIST_MAX_AGE)))
    }

    /// Proves that no VolumeAttachment names the volume.
    ///
    /// # Errors
    /// When one names it, or they could not be listed.
    pub async fn is_detached(&self, volume: &ObjectName) -> Result<Proof, ReconcileError> {
        let live = self
            .attachments
            .list(&volume.namespace)
            .await
            .map_err(ReconcileError::unread("VolumeAttachments"))?;
        if live.value.is_unreferenced(volume) {
            Ok(live.proof(LIST_MAX_AGE))
        } else {
            Err(ReconcileError::new(
                "the volume is still attached to a node",
            ))
        }
    }
}

/// Returns another of these volumes that has the same data.
fn volume_with_same_data(volumes: &Store<VolumeSource>, name: &ObjectName) -> Option<ObjectName> {
    let own = volumes.get(name)?;
    let mut others = volumes.objects().filter(|(other, _)| *other != name);
    let (other, _) = others.find(|(_, other)| own.is_shared_with(other))?;
    Some(other.clone())
}
