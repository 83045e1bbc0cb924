//! The watches that pv-releaser reads, and the decisions that rest on them.

use super::{
    Options, Scope,
    rule::{Attachment, Decision, LeaveReason, Unconfirmed, View, decide, scope},
};
use crate::{
    cluster::{Change, Excluded, Feed, Feeds, RecentlyDeleted},
    objects::{
        Claim, CompactText, ManagedBy, Namespace, ObjectName, StorageClass, Volume,
        VolumeAttachment,
        managed_by::Ownership,
        reuse::waiting_in,
        volume::{ClaimRef, Phase},
    },
};
use std::{sync::Arc, time::Duration};

/// How long the managed-by labels of a deleted claim are kept in memory: the watch of volumes may
/// deliver a volume of the claim later than the watch of claims its deletion.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The watches that pv-releaser reads. No two of the feeds are ever locked at once.
#[derive(Clone)]
pub struct Caches {
    /// The watch of all volumes.
    pub volumes: Arc<Feed<Volume>>,
    /// The watch of all claims, or of the claims of one namespace.
    pub claims: Arc<Feed<Claim>>,
    /// The watch of all StorageClasses. Those without an annotation that some rule needs are not
    /// kept.
    pub classes: Arc<Feed<StorageClass>>,
    /// The watch of all VolumeAttachments. A cached one proves that a volume may be attached.
    pub attachments: Arc<Feed<VolumeAttachment>>,
    /// The watch of all namespaces. It does not run with `--namespace`.
    pub namespaces: Arc<Feed<Namespace>>,
    /// Options of pv-releaser.
    pub options: Arc<Options>,
    recently_deleted: Arc<RecentlyDeleted<CompactText, Arc<ManagedBy>>>,
    namespace: Option<Arc<str>>,
    excluded: Excluded,
}

impl Caches {
    /// The caches of pv-releaser, which read these feeds. With `namespace`, only claims of that
    /// namespace are watched.
    pub fn new(feeds: &Feeds, namespace: Option<&str>, options: Options) -> Self {
        let caches = Self {
            volumes: feeds.volumes.clone(),
            claims: feeds.claims.clone(),
            classes: feeds.classes.clone(),
            attachments: feeds.attachments.clone(),
            namespaces: feeds.namespaces.clone(),
            options: Arc::new(options),
            recently_deleted: Arc::new(RecentlyDeleted::new(REMEMBERED)),
            namespace: namespace.map(Into::into),
            excluded: Excluded::by_label(feeds, namespace),
        };
        caches.remember_claims();
        caches
    }

    /// Registers a listener that remembers the managed-by labels of deleted claims. pv-releaser
    /// registers it before its other listeners of claims, so that they find the labels when they
    /// react to a deletion.
    fn remember_claims(&self) {
        let recently_deleted = self.recently_deleted.clone();
        self.claims.listen(move |change| {
            let replaced = |old: &Claim| change.new.is_none_or(|new| new.uid != old.uid);
            let gone = change.old.filter(|old| replaced(old));
            if let Some((claim, labels)) =
                gone.and_then(|old| Some((old, old.rare.managed_by.as_ref()?)))
            {
                recently_deleted.remember(claim.uid.clone(), Arc::new((**labels).clone()));
            }
        });
    }

    /// Returns whether the namespace has opted out.
    pub fn is_excluded(&self, namespace: &str) -> bool {
        self.excluded.contains(namespace)
    }

    /// Decides by the watches alone what happens to the volume.
    pub fn judge(&self, name: &ObjectName, volume: &Volume) -> Decision<Unconfirmed> {
        let attached = !self.attachments.read().is_unreferenced(name);
        let attachment = if attached {
            Attachment::Attached
        } else {
            Attachment::Detached(Unconfirmed)
        };
        self.judge_with(volume, attachment)
    }

    /// Decides what happens to the volume, given whether it is attached.
    pub fn judge_with<D: Copy>(&self, volume: &Volume, attachment: Attachment<D>) -> Decision<D> {
        let claim_ref = volume.claimed_by();
        let claim = claim_ref.and_then(|claim| self.claims.read().get(&claim.name));
        let recently_deleted = claim_ref.and_then(|claim| self.recently_deleted.get(&claim.uid));
        let class = self.class(volume);
        let view = View {
            volume,
            watched: claim_ref.is_some_and(|claim| self.watches(claim)),
            excluded: claim_ref.is_some_and(|claim| self.is_excluded(&claim.name.namespace)),
            claim: claim.as_deref(),
            recently_deleted: recently_deleted.as_deref(),
            class: class.as_deref(),
            attachment,
        };
        decide(&view, &self.options)
    }

    /// Returns the scope of the release of the volume; none if the value is invalid.
    pub fn scope(&self, volume: &Volume) -> Option<Scope> {
        let class = self.class(volume);
        scope(volume, class.as_deref(), &self.options)
    }

    fn class(&self, volume: &Volume) -> Option<Arc<StorageClass>> {
        let class = ObjectName::cluster_scoped(&*volume.class);
        self.classes.read().get(&class)
    }

    fn watches(&self, claim: &ClaimRef) -> bool {
        self.watches_namespace(&claim.name.namespace)
    }

    /// Returns whether the claims of the namespace are watched: all namespaces, or only that of
    /// `--namespace`.
    pub fn watches_namespace(&self, namespace: &str) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|only| only == namespace)
    }

    /// Returns the volumes that wait for a claim of this namespace: those that are parked, or
    /// reserved for a claim. It leaves out volumes that are being deleted, that pv-releaser never
    /// changes, or whose last write by Volume Warden the watch has not delivered yet.
    pub fn waiting_in(&self, namespace: &Arc<str>) -> Vec<(ObjectName, Arc<Volume>)> {
        let volumes = self.volumes.read();
        let names = volumes.names_referring_to(&waiting_in(namespace));
        let names = names.filter(|_| self.watches_namespace(namespace));
        let fresh = names.filter_map(|name| Some((name.clone(), volumes.get_fresh(name)?)));
        fresh
            .filter(|(_, volume)| !volume.deleting && !self.is_never_changed(volume))
            .collect()
    }

    /// Returns whether pv-releaser leaves the volume unchanged in any state: the volume has the
    /// label of another installation, or the annotation with the record of pvc-trash.
    pub fn is_never_changed(&self, volume: &Volume) -> bool {
        volume.trash.is_some() || self.options.volume_ownership(volume) == Ownership::Foreign
    }

    /// Returns the parked volumes that wait for claims of this namespace and are Available or
    /// Pending.
    pub fn parked_in(&self, namespace: &Arc<str>) -> Vec<(ObjectName, Arc<Volume>)> {
        let mut parked = self.waiting_in(namespace);
        parked.retain(|(_, volume)| self.is_parked(volume) && volume.phase == Phase::Other);
        parked
    }

    /// Returns the volumes that are reserved for a claim of this name. Their earlier claims were
    /// in a namespace of the same name, which may have been deleted and recreated since.
    pub fn reserved_for(&self, claim: &ObjectName) -> Vec<(ObjectName, Arc<Volume>)> {
        let mut reserved = self.waiting_in(&claim.namespace);
        reserved.retain(|(_, volume)| volume.reserved_for().is_some_and(|it| it.name == *claim));
        reserved
    }

    /// Returns whether the `claimRef` of the volume names the placeholder claim of this
    /// installation, which no client can create.
    pub fn is_parked(&self, volume: &Volume) -> bool {
        volume.is_parked(&self.options.system_namespace)
    }

    /// Returns the claims of the namespace that wait for a volume; a parked volume may fit them.
    pub fn claims_waiting_in(&self, namespace: &Arc<str>) -> Vec<ObjectName> {
        let claims = self.claims.read();
        let names = claims.names_referring_to(&waiting_in(namespace));
        names.cloned().collect()
    }

    /// Returns whether the volume is an orphan: it stays Released, because no label or StorageClass
    /// assigns it to an installation.
    pub fn is_orphan(&self, name: &ObjectName, volume: &Volume) -> bool {
        self.judge(name, volume) == Decision::Leave(LeaveReason::Orphaned)
    }

    /// Returns a VolumeAttachment of the volume, and the volume, if the volume would be released
    /// were it not attached; none if it is left unchanged for another reason, or does not exist.
    pub fn blocking_attachment(
        &self,
        name: &ObjectName,
    ) -> Option<(Arc<Volume>, ObjectName, Arc<VolumeAttachment>)> {
        let volume = self.volumes.read().get(name)?;
        if self.judge(name, &volume) != Decision::Leave(LeaveReason::Attached) {
            return None;
        }
        let attachments = self.attachments.read();
        let (attachment, object) = attachments.named_referrers(name).next()?;
        Some((volume, attachment.clone(), object.clone()))
    }

    /// Returns whether the volume still exists and is an orphan.
    pub fn is_orphan_still(&self, name: &ObjectName) -> bool {
        let volume = self.volumes.read().get(name);
        volume.is_some_and(|volume| self.is_orphan(name, &volume))
    }

    /// Returns whether a new volume got its label at admission, because of its claim. The review
    /// could publish no Event, because the volume did not exist yet.
    pub fn is_labelled_at_creation(&self, change: &Change<'_, Volume>) -> bool {
        let born = change
            .new
            .filter(|_| change.old.is_none() && self.volumes.is_synced());
        born.filter(|volume| self.options.volume_ownership(volume) == Ownership::Own)
            .is_some_and(|volume| {
                let unlabelled = Volume {
                    managed_by: None,
                    ..Volume::clone(volume)
                };
                self.judge(change.name, &unlabelled) == Decision::Associate
            })
    }
}
