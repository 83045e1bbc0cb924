//! Decides what `drain` removes from each object: a pure function of the objects that were read.
//! It is not related to `kubectl drain`.

use super::{
    ClusterObjects,
    piece::{Piece, object},
    trash::{self, Kept, Needs, Purge},
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
pub struct Terms {
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

impl Terms {
    pub(super) fn drains(&self, component: ComponentRef) -> bool {
        self.components.contains(&component)
    }
}

/// The removals, and the objects on which something is left.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Objects with parts to remove.
    pub pieces: Vec<Piece>,
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
pub fn plan(objects: &ClusterObjects, terms: &Terms) -> Plan {
    let mut plan = Plan::default();
    let mut updates = if terms.drains(&PvcRetention) {
        pvc_retention::to_take_back(&objects.caches, terms.in_tree)
    } else {
        Default::default()
    };
    let (claims, pods) = (objects.caches.claims.read(), objects.caches.pods.read());
    for (name, claim) in claims.objects() {
        let user = user(name, claim, &pods);
        plan.claim(name, claim, user, updates.remove(name), terms);
    }
    let needs = terms.purge_trash.then(|| Needs::new(objects, &claims));
    for (name, volume) in objects.volumes.objects() {
        plan.volume((name, volume), (&claims, needs.as_ref()), terms);
    }
    if terms.drains(&TrashListing) {
        plan.lists(&objects.lists);
    }
    // Purges are first, because the lists support them for some seconds only.
    plan.pieces.sort_by_key(|piece| {
        let is_volume = piece.kind == Kind::PersistentVolume;
        (!piece.is_purge(), is_volume, piece.name.clone())
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
        terms: &Terms,
    ) {
        let kind = Kind::PersistentVolumeClaim;
        let mut piece = Piece::new(kind, name, &claim.uid, &claim.resource_version);
        if let Some(update) = update {
            piece.owners_and_mark(claim, &update);
        }
        if terms.drains(&PvcProvisioner) {
            piece.made_for_a_pod(claim, &terms.id);
        }
        if terms.drains(&PvcExpiry) {
            piece.announced_expiry(claim);
        }
        if terms.drains(&PvcTrash) {
            trash::claim(&mut piece, claim);
        }
        if terms.drains(&PvcProtection) {
            piece.unused_condition(claim);
        }
        let protected = finalizers::has(&claim.finalizers, PVC_PROTECTION);
        if protected && terms.drains(&PvcProtection) && !terms.in_tree {
            match user {
                Some(pod) => self.hold(kind, name, format!("the pod {pod} uses it")),
                None => piece.finalizer(&claim.finalizers, PVC_PROTECTION),
            }
        }
        self.put(piece);
    }

    fn volume(
        &mut self,
        (name, volume): (&ObjectName, &Volume),
        (claims, needs): (&Store<Claim>, Option<&Needs<'_>>),
        terms: &Terms,
    ) {
        let kind = Kind::PersistentVolume;
        let mut piece = Piece::new(kind, name, &volume.uid, &volume.resource_version);
        let label = volume
            .managed_by
            .as_deref()
            .and_then(|labels| labels.releaser.as_deref());
        if terms.drains(&PvReleaser) && label == Some(terms.id.as_str()) {
            piece.label(RELEASER_LABEL);
        }
        if terms.drains(&PvcTrash) {
            let purge = needs.map_or(Purge::NotDue, |needs| {
                trash::purge(&mut piece, name, volume, needs)
            });
            match purge {
                Purge::Planned => {}
                Purge::Needed(kept) => self.kept.push(kept),
                Purge::NotDue => {
                    let may_expire = !terms.drains(&PvcExpiry);
                    let kept = trash::volume(&mut piece, name, volume, claims, may_expire);
                    self.kept.extend(kept);
                }
            }
        }
        let protected = finalizers::has(&volume.finalizers, PV_PROTECTION);
        if protected && terms.drains(&PvProtection) && !terms.in_tree {
            if volume.deleting && volume.phase == Phase::Bound {
                let claim = volume
                    .claim_ref
                    .as_ref()
                    .map(|claim| claim.name.to_string());
                let claim = claim.unwrap_or_default();
                self.hold(kind, name, format!("it is bound to the claim {claim}"));
            } else {
                piece.finalizer(&volume.finalizers, PV_PROTECTION);
            }
        }
        self.put(piece);
    }

    /// Plans the deletion of the ConfigMaps in which trash-list lists deleted claims, because
    /// nothing keeps them up to date any more.
    fn lists(&mut self, lists: &Store<TrashList>) {
        for (name, list) in lists.objects() {
            if list.owned && !list.deleting {
                let mut piece =
                    Piece::new(Kind::TrashList, name, &list.uid, &list.resource_version);
                piece.what.push("list of deleted claims".to_owned());
                self.put(piece);
            }
        }
    }

    fn hold(&mut self, kind: Kind, name: &ObjectName, by: String) {
        let object = object(kind, name);
        self.in_use.push(InUse { object, by });
    }

    fn put(&mut self, piece: Piece) {
        if !piece.what.is_empty() {
            self.pieces.push(piece);
        }
    }
}
