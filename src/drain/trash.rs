//! Decides what `drain` reverts of the writes of pvc-trash, and which volumes it leaves.

use super::{
    ClusterObjects,
    object_cleanup::{ObjectCleanup, Precondition, object},
};
use crate::{
    cluster::Store,
    components::pvc_trash,
    hashing::HashMap,
    objects::{
        Claim, CompactText, Kind, ObjectName, Volume, VolumeAttachment, VolumeSource,
        patch::remove,
        trash::{OriginalPolicy, TRASH, Trash, UNDELETE_TOUCHED},
        trash_entry::{Entry, Next},
        volume::{ClaimRef, Phase},
    },
};
use std::fmt;

/// A volume on which the writes of pvc-trash are left, because its data would be lost or could not
/// be restored otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The kind and name of the object, in words.
    pub object: String,
    /// Why the writes are left, as a clause.
    pub why: String,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, why } = self;
        write!(f, "{object}: what pvc-trash wrote is left, because {why}")
    }
}

/// Removes the annotation `undelete-touched`. pvc-trash writes it on a restored claim, again and
/// again until the claim is Bound, so that kube-controller-manager binds the claim soon.
pub(super) fn claim(cleanup: &mut ObjectCleanup, claim: &Claim) {
    if claim
        .rare
        .trash
        .as_deref()
        .is_some_and(|trash| trash.touched)
    {
        let mark = remove(&["annotations", UNDELETE_TOUCHED]);
        cleanup.remove_parts(format!("annotation {UNDELETE_TOUCHED}"), [mark]);
    }
}

/// What `--purge-trash` does with a volume.
pub(super) enum Purge {
    /// The purge is planned.
    Planned,
    /// The volume is in the trash, but something may still need its data.
    Needed(Kept),
    /// The volume is not in the trash, or its data is kept without limit.
    NotDue,
}

/// Plans the purge of a volume in the trash, for `--purge-trash`: its provisioner then deletes its
/// data.
///
/// The conditions are those of the reconciler of pvc-trash, except that the undelete window need
/// not have ended.
pub(super) fn purge(
    cleanup: &mut ObjectCleanup,
    name: &ObjectName,
    volume: &Volume,
    needs: &DataUsers<'_>,
) -> Purge {
    let entry = Entry::of(name, volume);
    let entry = entry.filter(|entry| matches!(entry.next, Next::Until(Some(_)) | Next::Requested));
    let Some((entry, claim_ref)) = entry.zip(volume.claimed_by()) else {
        return Purge::NotDue;
    };
    if let Some(why) = needs.of(name) {
        let object = object(Kind::PersistentVolume, name);
        let why = format!("it is in the trash, and {why}");
        return Purge::Needed(Kept { object, why });
    }
    let what = format!(
        "reclaim policy Retain (without it, the data of the deleted claim {} is deleted)",
        entry.claim()
    );
    cleanup.remove_parts(what, pvc_trash::purge(volume, entry.record));
    cleanup.precondition = Some(Precondition::Deleted(claim_ref.clone()));
    cleanup.deletes_copy = true;
    Purge::Planned
}

/// What may still need the data of volumes, indexed once for all volumes in the trash.
pub(super) struct DataUsers<'a> {
    attachments: &'a Store<VolumeAttachment>,
    sources: &'a Store<VolumeSource>,
    /// One claim for each volume that claims name.
    claims: HashMap<&'a CompactText, &'a ObjectName>,
    /// Up to two volumes for each known source of data.
    same: HashMap<&'a VolumeSource, Vec<&'a ObjectName>>,
}

impl<'a> DataUsers<'a> {
    /// Indexes the attachments, the claims and the sources of data.
    pub(super) fn new(objects: &'a ClusterObjects, claims: &'a Store<Claim>) -> Self {
        let named = claims.objects();
        let mut same: HashMap<_, Vec<_>> = HashMap::default();
        let known = objects.sources.objects();
        for (name, source) in known.filter(|(_, source)| source.is_known()) {
            let volumes = same.entry(&**source).or_default();
            if volumes.len() < 2 {
                volumes.push(name);
            }
        }
        Self {
            attachments: &objects.attachments,
            sources: &objects.sources,
            claims: named
                .map(|(name, claim)| (&claim.volume_name, name))
                .collect(),
            same,
        }
    }

    /// Why the data of a volume in the trash may still be needed, as a clause.
    fn of(&self, name: &ObjectName) -> Option<String> {
        if let Some((_, attachment)) = self.attachments.named_referrers(name).next() {
            return Some(format!("it is attached to the node {}", attachment.node));
        }
        if let Some(claim) = self.claims.get(&CompactText::from(&*name.name)) {
            return Some(format!("the claim {claim} requests its data"));
        }
        let own = self.sources.get(name)?;
        let twin = self.same.get(&*own)?.iter().find(|other| **other != name)?;
        Some(format!("the volume {twin} has the same data"))
    }
}

/// Disables the trash for a Bound volume if neither it nor its claim is deleted or being deleted,
/// and returns none. If claims `may_expire`, because pvc-expiry is not drained, the claim must not
/// be announced to expire either. On any other volume that pvc-trash keeps, it removes nothing, and
/// returns the volume.
pub(super) fn volume(
    cleanup: &mut ObjectCleanup,
    name: &ObjectName,
    volume: &Volume,
    claims: &Store<Claim>,
    may_expire: bool,
) -> Option<Kept> {
    let trash = volume.trash.as_deref()?;
    let why = match (volume.phase, volume.claimed_by()) {
        (Phase::Bound, Some(claim)) => {
            match disable(cleanup, volume, claim, trash, (claims, may_expire)) {
                Ok(()) => return None,
                Err(why) => why,
            }
        }
        (Phase::Released | Phase::Failed, _) => in_trash(name, volume)?,
        _ => "it is not Bound, and Volume Warden may be restoring its data".to_owned(),
    };
    let object = object(Kind::PersistentVolume, name);
    Some(Kept { object, why })
}

fn disable(
    cleanup: &mut ObjectCleanup,
    volume: &Volume,
    claim_ref: &ClaimRef,
    trash: &Trash,
    (claims, may_expire): (&Store<Claim>, bool),
) -> Result<(), String> {
    let Some(record) = &trash.record else {
        return Err(format!("its annotation {TRASH} cannot be read"));
    };
    let claim = claims.get(&claim_ref.name);
    let claim = claim.filter(|claim| claim.uid == claim_ref.uid);
    let name = &claim_ref.name;
    match claim {
        _ if volume.deleting => Err("it is being deleted".to_owned()),
        None => Err(format!("its claim {name} was deleted, or was not read")),
        Some(claim) if claim.deleting => Err(format!("its claim {name} is being deleted")),
        Some(claim) if may_expire && claim.rare.is_announced() => Err(format!(
            "its claim {name} is announced to expire, and pvc-expiry is not drained"
        )),
        Some(_) => {
            let what = match record.policy {
                OriginalPolicy::Delete => format!("reclaim policy Retain, annotation {TRASH}"),
                OriginalPolicy::Retain => format!("annotation {TRASH}"),
            };
            cleanup.remove_parts(what, pvc_trash::disable(volume, record));
            cleanup.precondition = Some(if may_expire {
                Precondition::NotExpiring(claim_ref.clone())
            } else {
                Precondition::Exists(claim_ref.clone())
            });
            cleanup.deletes_copy = true;
            Ok(())
        }
    }
}

/// Describes why a Released or Failed volume is left; none if nothing keeps its data any more.
fn in_trash(name: &ObjectName, volume: &Volume) -> Option<String> {
    let Some(entry) = Entry::of(name, volume) else {
        let kept = volume.retains() && !volume.deleting;
        return kept.then(|| "it is Released, and its data is kept".to_owned());
    };
    let claim = entry.claim();
    let until = match entry.next {
        Next::Purging => return None,
        Next::Until(Some(end)) => {
            format!("until {end}, or without limit if Volume Warden is uninstalled")
        }
        Next::Until(None) => {
            "until its undelete window ends, or without limit if Volume Warden is uninstalled"
                .to_owned()
        }
        Next::Requested => "though its purge is requested".to_owned(),
        Next::Kept => "without limit".to_owned(),
    };
    Some(format!(
        "it is in the trash: the data of the deleted claim {claim} is kept {until}"
    ))
}
