//! Proves by live reads in which namespace, by uid, a claim is.
//!
//! A namespace that is deleted and recreated keeps its name and gets another uid. The uid of the
//! namespace is read after the uid of the claim is known, and the claim is read after that: if it
//! still has its uid, it was in that namespace.

use crate::{
    cluster::{DEFAULT_CALL_TIMEOUT, Evidence, LiveGet},
    objects::{CompactText, Namespace, ObjectName, Volume, fit::ClaimRequirements, reuse::Record},
};
use std::{sync::Arc, time::Duration};

/// Live reads of namespaces and claims.
#[derive(Clone)]
pub struct Identity {
    /// Reads the uid of a namespace live.
    pub namespaces: Arc<LiveGet<Namespace>>,
    /// Reads the uid and the requirements of a claim live.
    pub claims: Arc<LiveGet<ClaimRequirements>>,
}

impl Identity {
    /// Returns the uid of the namespace of this name, if it exists.
    ///
    /// # Errors
    /// When the namespace could not be read within `limit`.
    pub async fn namespace(
        &self,
        name: &Arc<str>,
        limit: Duration,
    ) -> kube::Result<Option<Box<str>>> {
        let name = ObjectName::cluster_scoped(name.clone());
        let found = self.namespaces.get(&name, limit).await?;
        Ok(found.map(|namespace| namespace.uid))
    }

    /// Returns the uid of the namespace of this name, if it exists and is not being deleted: no
    /// more claims are created in one that is.
    ///
    /// # Errors
    /// When the namespace could not be read.
    pub async fn active_namespace(
        &self,
        name: &Arc<str>,
    ) -> kube::Result<Evidence<Option<Box<str>>>> {
        let name = ObjectName::cluster_scoped(name.clone());
        let read = self.namespaces.read(&name, DEFAULT_CALL_TIMEOUT).await?;
        Ok(read.map(|found| {
            let active = found.filter(|namespace| !namespace.deleting);
            active.map(|namespace| namespace.uid)
        }))
    }

    /// Returns the record for the claim that the volume is or was bound to; none if nothing proves
    /// in which namespace the claim is or was.
    ///
    /// If the volume has the record of an earlier claim, and the namespace of that name still has
    /// the recorded uid, the record proves it without a read of the claim, even if the claim is
    /// deleted: the namespace existed before the volume was bound to its last claim, and exists
    /// now.
    ///
    /// # Errors
    /// When an object could not be read within `limit`.
    pub async fn record(&self, volume: &Volume, limit: Duration) -> kube::Result<Option<Record>> {
        let Some(claim) = volume.claimed_by() else {
            return Ok(None);
        };
        let namespace = &claim.name.namespace;
        let Some(namespace_uid) = self.namespace(namespace, limit).await? else {
            return Ok(None);
        };
        let earlier = volume.record().is_some_and(|record| {
            record.namespace == *namespace && record.namespace_uid == namespace_uid
        });
        let proven = earlier || self.is_there(&claim.name, &claim.uid, limit).await?;
        Ok(proven.then(|| Record {
            namespace: namespace.clone(),
            namespace_uid,
            claim_uid: claim.uid.clone(),
        }))
    }

    async fn is_there(
        &self,
        name: &ObjectName,
        uid: &CompactText,
        limit: Duration,
    ) -> kube::Result<bool> {
        let live = self.claims.get(name, limit).await?;
        Ok(live.is_some_and(|claim| *uid == claim.uid))
    }
}
