//! The watches of volumes, claims, StorageClasses and namespaces, and the decisions by them.

use super::{
    recorded::{record_if_deleted, recorded},
    renamed::Renamed,
    restore_requests::RestoreRequests,
    rule::{Decision, LeaveReason, View, decide},
    usage::Usage,
};
use crate::{
    cluster::{Excluded, Feed, Feeds},
    go_duration,
    hashing::HashSet,
    objects::{
        Claim, CompactText, Namespace, ObjectName, StorageClass, Volume, rebind,
        trash::TrashRecord,
        undelete_request::UndeleteRequest,
        undelete_window::{NamespaceWindow, Window},
        volume::Phase,
    },
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// The watches that pvc-trash reads, except that of the copies. No two of the feeds are ever locked
/// at once.
#[derive(Clone)]
pub struct Caches {
    /// The watch of all volumes.
    pub volumes: Arc<Feed<Volume>>,
    /// The watch of all claims, or of the claims of one namespace.
    pub claims: Arc<Feed<Claim>>,
    /// The watch of all StorageClasses. Those without an annotation that some rule needs are not
    /// kept.
    pub classes: Arc<Feed<StorageClass>>,
    /// The watch of all namespaces; none if only one namespace is handled, because the permissions
    /// may not include namespaces then.
    pub namespaces: Option<Arc<Feed<Namespace>>>,
    restore_requests: Arc<RestoreRequests>,
    usage: Arc<Usage>,
    renamed: Arc<Renamed>,
    excluded: Excluded,
    namespace: Option<Arc<str>>,
}

impl Caches {
    /// The caches of pvc-trash, which read these feeds. With `namespace`, only claims of that
    /// namespace are watched, and volumes of other claims are left unchanged. The trash of a
    /// namespace is full at `max_bytes`.
    pub fn new(feeds: &Feeds, namespace: Option<&str>, max_bytes: u64) -> Self {
        let restore_requests: Arc<RestoreRequests> = Arc::default();
        let index = restore_requests.clone();
        feeds.claims.listen(move |change| index.update(change));
        let usage = Arc::new(Usage::new(max_bytes));
        let counted = usage.clone();
        feeds.volumes.listen(move |change| counted.update(change));
        let renamed: Arc<Renamed> = Arc::default();
        let index = renamed.clone();
        feeds.volumes.listen(move |change| index.update(change));
        Self {
            volumes: feeds.volumes.clone(),
            claims: feeds.claims.clone(),
            classes: feeds.classes.clone(),
            namespaces: namespace.is_none().then(|| feeds.namespaces.clone()),
            restore_requests,
            usage,
            renamed,
            excluded: Excluded::by_label(feeds, namespace),
            namespace: namespace.map(Into::into),
        }
    }

    /// Decides by the watches alone what happens next to the volume.
    pub fn judge(&self, name: &ObjectName, volume: &Volume) -> Decision {
        let requesting_claim =
            recorded(volume).and_then(|record| self.requesting_claim(name, record));
        self.judge_for(volume, requesting_claim.as_ref())
    }

    /// Decides as [`Self::judge`], as if only `requesting_claim` requested the data, or no claim if
    /// it is none.
    pub fn judge_for(&self, volume: &Volume, requesting_claim: Option<&ObjectName>) -> Decision {
        self.view(volume, requesting_claim, decide)
            .unwrap_or(Decision::Leave(LeaveReason::NotEnabled))
    }

    /// Returns a claim that requests the volume and, by the record, may get it. A claim of another
    /// namespace, or one for which the volume was reserved before and that was not Bound in time,
    /// is passed over, so that it does not block other claims. None if too many claims were not
    /// Bound.
    fn requesting_claim(&self, name: &ObjectName, record: &TrashRecord) -> Option<ObjectName> {
        self.entitled(name, record).next().map(|(name, _)| name)
    }

    /// Returns the uids of the claims that request the volume and, by the record, may get it.
    pub fn entitled_uids(&self, name: &ObjectName, record: &TrashRecord) -> HashSet<CompactText> {
        let entitled = self.entitled(name, record);
        entitled.map(|(_, claim)| claim.uid.clone()).collect()
    }

    /// Returns the claims that request the volume and, by the record, may get it.
    fn entitled(
        &self,
        name: &ObjectName,
        record: &TrashRecord,
    ) -> impl Iterator<Item = (ObjectName, Arc<Claim>)> {
        let requesting = self.requesting(&name.name, Some(&record.claim.namespace));
        let all = requesting.into_iter();
        all.filter(|(_, claim)| record.may_restore(&claim.uid))
    }

    /// Returns the Pending claims that request the volume of this name: those of one namespace, or
    /// of all.
    pub fn requesting(
        &self,
        volume: &str,
        namespace: Option<&str>,
    ) -> Vec<(ObjectName, Arc<Claim>)> {
        let names = self.restore_requests.of(volume, namespace);
        let claims = self.claims.read();
        let found = names.into_iter().map(|name| (claims.get(&name), name));
        found
            .filter_map(|(claim, name)| Some((name, claim?)))
            .collect()
    }

    /// Applies `read` to the view of a volume; none if the namespace of its claim is not watched.
    pub fn view<T>(
        &self,
        volume: &Volume,
        requesting_claim: Option<&ObjectName>,
        read: impl FnOnce(&View<'_>) -> T,
    ) -> Option<T> {
        if !self.watches_claim_of(volume) {
            return None;
        }
        let claim_ref = volume.claim_ref.as_ref();
        let claim = claim_ref.and_then(|claim| self.claims.read().get(&claim.name));
        let longest = self.longest(&volume.class);
        let namespace = match (&longest, claim_ref) {
            // How far the namespace may lengthen the window cannot be read. Recorded windows stay.
            (Some(Err(_)), _) | (_, None) => NamespaceWindow::Unknown,
            (_, Some(claim)) => self.requested_by(&claim.name.namespace),
        };
        let view = View {
            volume,
            class: self.window(&volume.class).and_then(Result::ok),
            longest: longest.and_then(Result::ok),
            namespace,
            claim: claim.as_deref(),
            excluded: claim_ref.is_some_and(|claim| self.excluded.contains(&claim.name.namespace)),
            full: claim_ref.is_some_and(|claim| self.usage.is_full(&claim.name.namespace)),
            requesting_claim,
        };
        Some(read(&view))
    }

    /// Returns the undelete window that the StorageClass of this name requests, or an error if its
    /// annotation cannot be read; none without the annotation.
    pub fn window(&self, class: &str) -> Option<Result<Window, String>> {
        let class = self
            .classes
            .read()
            .get(&ObjectName::cluster_scoped(class))?;
        class.undelete_window.as_deref().map(Window::of_class)
    }

    /// Returns the longest window that this StorageClass permits to a namespace, or an error if
    /// its annotation cannot be read; none without the annotation: no namespace may then lengthen
    /// the window of the class.
    pub fn longest(&self, class: &str) -> Option<Result<Duration, String>> {
        let class = self
            .classes
            .read()
            .get(&ObjectName::cluster_scoped(class))?;
        let longest = class.undelete_window_max.as_deref();
        longest.map(go_duration::parse)
    }

    /// Returns whether new claims of this StorageClass get the volume of the deleted claim of
    /// their name, or an error if its annotation cannot be read; none without the annotation.
    pub fn rebinds(&self, class: &str) -> Option<Result<bool, String>> {
        let class = self
            .classes
            .read()
            .get(&ObjectName::cluster_scoped(class))?;
        class.rebind.as_deref().map(rebind::parse)
    }

    fn requested_by(&self, namespace: &str) -> NamespaceWindow {
        let Some(namespaces) = &self.namespaces else {
            return NamespaceWindow::Unset;
        };
        let found = namespaces
            .read()
            .get(&ObjectName::cluster_scoped(namespace));
        found.map_or(NamespaceWindow::Unknown, |found| {
            NamespaceWindow::of(found.undelete_window.as_deref())
        })
    }

    /// Returns the uid of the namespace, if the watch of namespaces has delivered it.
    pub fn namespace_uid(&self, namespace: &str) -> Option<Box<str>> {
        let namespaces = self.namespaces.as_ref()?.read();
        let found = namespaces.get(&ObjectName::cluster_scoped(namespace))?;
        Some(found.uid.clone())
    }

    /// Returns the volumes whose `claimRef` has this name, with any uid.
    pub fn referring(&self, claim: &ObjectName) -> Vec<(ObjectName, Arc<Volume>)> {
        let volumes = self.volumes.read();
        let names = volumes.names_referring_to(claim);
        names
            .filter_map(|name| Some((name.clone(), volumes.get(name)?)))
            .collect()
    }

    /// Returns whether a Pending claim in the namespace of `except`, but with another name,
    /// requests the volume and, by its record, may get it.
    pub fn is_requested(&self, volume: &ObjectName, except: &ObjectName) -> bool {
        let requesting = self.requesting(&volume.name, Some(&except.namespace));
        let volume = self.volumes.read().get(volume);
        let record = volume.as_deref().and_then(recorded);
        let mut others = requesting.iter().filter(|(claim, _)| claim != except);
        others.any(|(_, claim)| record.is_none_or(|record| record.may_restore(&claim.uid)))
    }

    /// Returns whether any Pending claim requests the volume of this name.
    pub fn is_wanted(&self, volume: &ObjectName) -> bool {
        !self.restore_requests.of(&volume.name, None).is_empty()
    }

    /// Returns whether this installation handles claims of the namespace: the namespace has not
    /// opted out, and `--namespace`, if it is set, is this one.
    pub fn handles(&self, namespace: &str) -> bool {
        self.only_other_than(namespace).is_none() && !self.excluded.contains(namespace)
    }

    /// Returns the namespace of the flag `--namespace`, if it is another one than this.
    pub fn only_other_than(&self, namespace: &str) -> Option<&str> {
        self.namespace.as_deref().filter(|only| *only != namespace)
    }

    /// Returns the volumes that are kept for a deleted claim of the namespace of `creating`, and
    /// that `requested` names, as the volume or as the deleted claim, sorted by name. Some are not
    /// in the trash yet, or are being restored. A claim that is being deleted counts as deleted,
    /// and so does one with the name of `creating`, the claim that is about to be created.
    pub fn deleted(
        &self,
        creating: &ObjectName,
        requested: UndeleteRequest<'_>,
    ) -> Vec<(ObjectName, Arc<Volume>)> {
        let namespace = &*creating.namespace;
        let claim = requested.claim();
        let claim = claim.map(|name| ObjectName::new(namespace, name));
        let volume = requested.volume().map(ObjectName::cluster_scoped);
        let mut found: Vec<_> = {
            let volumes = self.volumes.read();
            let of_claim = claim.iter().flat_map(|claim| {
                let referring = volumes.names_referring_to(claim).cloned();
                referring.chain(self.renamed.volumes_of(claim))
            });
            let names: BTreeSet<_> = of_claim.chain(volume).collect();
            let found = names.into_iter().filter_map(|name| {
                let volume = volumes.get(&name)?;
                let recorded = &record_if_deleted(&volume)?.claim;
                let is_named = requested.volume() == Some(&*name.name)
                    || requested.claim() == Some(&*recorded.name);
                (is_named && recorded.namespace == namespace).then(|| (name, volume.clone()))
            });
            found.collect()
        };
        let claims = self.claims.read();
        found.retain(|(_, volume)| {
            let bound = volume.claim_ref.as_ref();
            let bound = bound.filter(|_| volume.phase == Phase::Bound);
            bound.is_none_or(|bound| {
                let claim = claims.get(&bound.name);
                bound.name == *creating
                    || claim.is_none_or(|claim| claim.uid != bound.uid || claim.deleting)
            })
        });
        found
    }

    /// Returns whether claims of the namespace are watched in which the claim of the volume is or
    /// was. Other volumes are left to the Volume Warden of their namespace.
    pub fn watches_claim_of(&self, volume: &Volume) -> bool {
        let claim = volume.claim_ref.as_ref();
        claim.is_none_or(|claim| self.only_other_than(&claim.name.namespace).is_none())
    }
}
