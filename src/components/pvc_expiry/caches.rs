//! The watches that pvc-expiry reads, and views for the rule.

use super::{
    last_use::LastUse,
    rule::{Decision, View, decide},
};
use crate::{
    cluster::{Excluded, Feed, Feeds, LatestTime, Observation},
    objects::{Claim, ObjectName, Pod, StorageClass, Volume},
};
use k8s_openapi::jiff::Timestamp;
use std::sync::Arc;

/// The watches that pvc-expiry reads. To prevent a deadlock, no method locks two of these feeds at
/// once.
#[derive(Clone)]
pub struct Caches {
    /// The watch of all claims.
    pub claims: Arc<Feed<Claim>>,
    /// The watch of all pods with claims.
    pub pods: Arc<Feed<Pod>>,
    /// The watch of all volumes.
    pub volumes: Arc<Feed<Volume>>,
    /// The watch of the StorageClasses with annotations of Volume Warden.
    pub classes: Arc<Feed<StorageClass>>,
    /// Since when the cluster has been watched.
    pub observation: Arc<Observation>,
    /// The clocks. [`Self::judge`] measures ages by that of this process. A live evaluation also
    /// reads the time of the API server.
    pub time: LatestTime,
    last_use: Arc<LastUse>,
    excluded: Excluded,
}

impl Caches {
    /// The caches of pvc-expiry, which read these feeds.
    pub fn new(
        feeds: &Feeds,
        observation: Arc<Observation>,
        time: LatestTime,
        excluded: Excluded,
    ) -> Self {
        Self {
            claims: feeds.claims.clone(),
            pods: feeds.pods.clone(),
            volumes: feeds.volumes.clone(),
            classes: feeds.classes.clone(),
            observation,
            last_use: LastUse::watching(&feeds.claims, &feeds.pods, time.clone()),
            time,
            excluded,
        }
    }

    /// Decides by the watches alone what happens next to the claim.
    pub fn judge(&self, name: &ObjectName, claim: &Claim) -> Decision {
        let volume = self.volume_of(claim);
        let class = volume.as_deref().and_then(|volume| self.class_of(volume));
        let used = !self.pods.read().is_unreferenced(name);
        decide(&View {
            claim,
            volume: volume.as_deref(),
            class: class.as_deref(),
            used,
            observed: self.observed(name),
            now: self.time.local(),
        })
    }

    /// Returns since when the cluster has been watched without a break and without the end of a pod
    /// that used the claim although its condition Unused was True; none until the first lists of
    /// the watches are complete.
    pub fn observed(&self, name: &ObjectName) -> Option<Timestamp> {
        let since = self.observation.since()?;
        Some(self.last_use.of(name).map_or(since, |last| last.max(since)))
    }

    /// Returns the volume that `spec.volumeName` names, if the watch has delivered it.
    pub fn volume_of(&self, claim: &Claim) -> Option<Arc<Volume>> {
        self.volumes
            .read()
            .get(&ObjectName::cluster_scoped(claim.volume_name.to_string()))
    }

    /// Returns the StorageClass of the volume, if that StorageClass has annotations of Volume
    /// Warden.
    pub fn class_of(&self, volume: &Volume) -> Option<Arc<StorageClass>> {
        self.classes
            .read()
            .get(&ObjectName::cluster_scoped(&*volume.class))
    }

    /// Returns the claims for which [`Self::may_expire`] is true. In namespaces that have opted
    /// out, only those that were announced to expire, so that the announcement is removed.
    pub fn candidates(&self) -> Vec<(ObjectName, Arc<Claim>)> {
        let mut names = self
            .claims
            .read()
            .names_where(|claim| claim.rare.expiry.is_some());
        for (class, _) in self.expiring_classes() {
            names.extend(self.claims_of_class(&class.name));
        }
        names.sort();
        names.dedup();
        let found = names
            .into_iter()
            .filter_map(|name| Some((self.claim(&name)?, name)));
        found
            .filter(|(claim, name)| claim.rare.is_announced() || !self.excludes(&name.namespace))
            .map(|(claim, name)| (name, claim))
            .collect()
    }

    /// Returns the StorageClasses with the annotation `volume-warden.dev/expire-unused`, whatever
    /// its value is.
    pub fn expiring_classes(&self) -> Vec<(ObjectName, Arc<StorageClass>)> {
        let classes = self.classes.read();
        let expiring = classes
            .objects()
            .filter(|(_, class)| class.expire_unused.is_some());
        expiring
            .map(|(name, class)| (name.clone(), class.clone()))
            .collect()
    }

    /// Returns the claims to which volumes of the StorageClass are or were bound, by `claimRef`.
    pub fn claims_of_class(&self, class: &str) -> Vec<ObjectName> {
        let volumes = self.volumes.read();
        let of_class = volumes
            .objects()
            .filter(|(_, volume)| &*volume.class == class);
        let claims = of_class.filter_map(|(_, volume)| volume.claimed_by());
        claims.map(|claim| claim.name.clone()).collect()
    }

    /// Returns whether the rule has to decide about the claim: the claim or its StorageClass has
    /// the annotation `volume-warden.dev/expire-unused`, with any value, or the claim was
    /// announced to expire.
    pub fn may_expire(&self, claim: &Claim) -> bool {
        claim.rare.expiry.is_some()
            || self
                .volume_of(claim)
                .and_then(|volume| self.class_of(&volume))
                .is_some_and(|class| class.expire_unused.is_some())
    }

    /// Returns the claim of this name, if the watch has delivered it.
    pub fn claim(&self, name: &ObjectName) -> Option<Arc<Claim>> {
        self.claims.read().get(name)
    }

    /// Returns whether the namespace has opted out.
    pub fn excludes(&self, namespace: &str) -> bool {
        self.excluded.contains(namespace)
    }
}
