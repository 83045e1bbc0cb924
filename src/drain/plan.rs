//! Decides what `drain` removes from each object: a pure function of the objects that were read.
//! It is not related to `kubectl drain`.

use super::{
    ClusterObjects,
    object_cleanup::{ObjectCleanup, object},
    trash::{self, DataUsers, Kept, Purge},
};
use crate::{
    causes::{FinishedPods, uses},
    cluster::Store,
    component::ComponentRef,
    components::{
        pv_protection::PvProtection,
        pv_releaser::PvReleaser,
        pvc_expiry::PvcExpiry,
        pvc_protection::PvcProtection,
        pvc_provisioner::PvcProvisioner,
        pvc_retention::{self, PvcRetention, Update},
        pvc_trash::PvcTrash,
        trash_list::TrashListing,
    },
    objects::{
        Claim, ControllerId, Kind, ObjectName, Pod, TrashList, Volume,
        finalizers::{self, PV_PROTECTION, PVC_PROTECTION},
        managed_by::RELEASER_LABEL,
        volume::Phase,
    },
};
use std::fmt;

/// Which components `drain` removes the writes of, and under which conditions.
#[derive(Clone, Debug)]
pub struct DrainConfig {
    /// The components whose writes are removed.
    pub components: Vec<ComponentRef>,
    /// Whether the built-in controllers of Kubernetes are enabled. Then `drain` leaves what they
    /// also write: the protection finalizers, and the owner references of claims whose pods exist.
    pub in_tree: bool,
    /// Whether volumes in the trash are purged, that is, their data is deleted. This requires that
    /// the claims of all namespaces have been read.
    pub purge_trash: bool,
    /// The id of this installation: labels with this value are removed.
    pub id: ControllerId,
}

impl DrainConfig {
    pub(super) fn drains(&self, component: ComponentRef) -> bool {
        self.components.contains(&component)
    }
}

/// The removals, and the objects on which something is left.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Objects with parts to remove.
    pub cleanups: Vec<ObjectCleanup>,
    /// Objects that keep their finalizer, because they are being deleted and in use.
    pub in_use: Vec<InUse>,
    /// Volumes on which the writes of pvc-trash are left, because their data would be lost or could
    /// not be restored otherwise.
    pub kept: Vec<Kept>,
}

/// An object that is being deleted and in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InUse {
    /// Kind and name of the object, which keeps its protection finalizer, in words.
    pub object: String,
    /// What uses the object, in words.
    pub by: String,
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, by } = self;
        write!(
            f,
            "{object}: left unchanged, because it is being deleted and {by}"
        )
    }
}

/// Decides which parts are removed from each object, and on which objects something is left.
pub fn plan(objects: &ClusterObjects, config: &DrainConfig) -> Plan {
    let mut plan = Plan::default();
    let mut updates = if config.drains(&PvcRetention) {
        pvc_retention::owner_cleanups(&objects.caches, config.in_tree)
    } else {
        Default::default()
    };
    let (claims, pods) = (objects.caches.claims.read(), objects.caches.pods.read());
    for (name, claim) in claims.objects() {
        let user = user(name, claim, &pods);
        plan.claim(name, claim, user, updates.remove(name), config);
    }
    let needs = config.purge_trash.then(|| DataUsers::new(objects, &claims));
    for (name, volume) in objects.volumes.objects() {
        plan.volume((name, volume), (&claims, needs.as_ref()), config);
    }
    if config.drains(&TrashListing) {
        plan.lists(&objects.lists);
    }
    // Purges are first, because the lists support them for some seconds only.
    plan.cleanups.sort_by_key(|cleanup| {
        let is_volume = cleanup.kind == Kind::PersistentVolume;
        (!cleanup.is_purge(), is_volume, cleanup.name.clone())
    });
    plan.in_use.sort_by(|a, b| a.object.cmp(&b.object));
    plan.kept.sort_by(|a, b| a.object.cmp(&b.object));
    plan
}

/// Returns a pod that uses the claim, by the rule of pvc-protection with `--finished-pods=hold`:
/// finished pods count. None if the claim is not being deleted.
fn user<'a>(name: &ObjectName, claim: &Claim, pods: &'a Store<Pod>) -> Option<&'a str> {
    let uses = |pod: &&ObjectName| {
        let pod = pods.get(pod);
        pod.is_some_and(|pod| uses(&pod, &name.name, claim, FinishedPods::Hold))
    };
    let named_by = pods.names_referring_to(name);
    let user = named_by.filter(|_| claim.deleting).filter(uses).min();
    user.map(|pod| &*pod.name)
}

impl Plan {
    fn claim(
        &mut self,
        name: &ObjectName,
        claim: &Claim,
        user: Option<&str>,
        update: Option<Update>,
        config: &DrainConfig,
    ) {
        let kind = Kind::PersistentVolumeClaim;
        let mut cleanup = ObjectCleanup::new(kind, name, &claim.uid, &claim.resource_version);
        if let Some(update) = update {
            cleanup.owners_and_mark(claim, &update);
        }
        if config.drains(&PvcProvisioner) {
            cleanup.provisioner_markers(claim, &config.id);
        }
        if config.drains(&PvcExpiry) {
            cleanup.announced_expiry(claim);
        }
        if config.drains(&PvcTrash) {
            trash::claim(&mut cleanup, claim);
        }
        if config.drains(&PvcProtection) {
            cleanup.unused_condition(claim);
        }
        let protected = finalizers::has(&claim.finalizers, PVC_PROTECTION);
        if protected && config.drains(&PvcProtection) && !config.in_tree {
            match user {
                Some(pod) => self.hold(kind, name, format!("the pod {pod} uses it")),
                None => cleanup.finalizer(&claim.finalizers, PVC_PROTECTION),
            }
        }
        self.put(cleanup);
    }

    fn volume(
        &mut self,
        (name, volume): (&ObjectName, &Volume),
        (claims, needs): (&Store<Claim>, Option<&DataUsers<'_>>),
        config: &DrainConfig,
    ) {
        let kind = Kind::PersistentVolume;
        let mut cleanup = ObjectCleanup::new(kind, name, &volume.uid, &volume.resource_version);
        let label = volume
            .managed_by
            .as_deref()
            .and_then(|labels| labels.releaser.as_deref());
        if config.drains(&PvReleaser) && label == Some(config.id.as_str()) {
            cleanup.label(RELEASER_LABEL);
        }
        if config.drains(&PvcTrash) {
            let purge = needs.map_or(Purge::NotDue, |needs| {
                trash::purge(&mut cleanup, name, volume, needs)
            });
            match purge {
                Purge::Planned => {}
                Purge::Needed(kept) => self.kept.push(kept),
                Purge::NotDue => {
                    let may_expire = !config.drains(&PvcExpiry);
                    let kept = trash::volume(&mut cleanup, name, volume, claims, may_expire);
                    self.kept.extend(kept);
                }
            }
        }
        let protected = finalizers::has(&volume.finalizers, PV_PROTECTION);
        if protected && config.drains(&PvProtection) && !config.in_tree {
            if volume.deleting && volume.phase == Phase::Bound {
                let claim = volume
                    .claim_ref
                    .as_ref()
                    .map(|claim| claim.name.to_string());
                let claim = claim.unwrap_or_default();
                self.hold(kind, name, format!("it is bound to the claim {claim}"));
            } else {
                cleanup.finalizer(&volume.finalizers, PV_PROTECTION);
            }
        }
        self.put(cleanup);
    }

    /// Plans the deletion of the ConfigMaps in which trash-list lists deleted claims, because
    /// nothing keeps them up to date any more.
    fn lists(&mut self, lists: &Store<TrashList>) {
        for (name, list) in lists.objects() {
            if list.owned && !list.deleting {
                let mut cleanup =
                    ObjectCleanup::new(Kind::TrashList, name, &list.uid, &list.resource_version);
                cleanup.what.push("list of deleted claims".to_owned());
                self.put(cleanup);
            }
        }
    }

    fn hold(&mut self, kind: Kind, name: &ObjectName, by: String) {
        let object = object(kind, name);
        self.in_use.push(InUse { object, by });
    }

    fn put(&mut self, cleanup: ObjectCleanup) {
        if !cleanup.what.is_empty() {
            self.cleanups.push(cleanup);
        }
    }
}
