//! The Events of pvc-retention on a StatefulSet about its claims.

use super::{
    caches::{Member, pod_name},
    fate::Fate,
};
use crate::{
    cluster::{self, Announcement},
    objects::ObjectName,
};
use std::sync::Arc;

/// The Events already published on each StatefulSet, by claim and reason.
pub type EventDeduplicator = cluster::EventDeduplicator<ObjectName, (Arc<str>, &'static str)>;

/// The Event on the StatefulSet about a claim with this fate; none if the fate needs no Event.
pub fn announcement(set: &ObjectName, member: &Member, fate: Fate) -> Option<Announcement> {
    let (claim, pod) = (&member.name.name, pod_name(&set.name, member.ordinal));
    let note = match fate {
        Fate::ConflictingController => format!(
            "claim \"{claim}\" has an owner reference with controller=true to another object, so \
             the retention policy of this StatefulSet is not applied to the claim"
        ),
        Fate::PodBlockedByClaim => format!(
            "pod \"{pod}\" cannot be created before the deletion of claim \"{claim}\" is complete"
        ),
        Fate::ScaledDownUnmarked => format!(
            "claim \"{claim}\" is out of range after a scale-down and has no pod, but is kept: it \
             has no marker which shows that whenScaled was Delete while the claim was in range. \
             Delete the claim manually if it is not needed"
        ),
        Fate::Retained
        | Fate::DeletedWithSet
        | Fate::DeletedWithPod
        | Fate::StaleOwner
        | Fate::Terminating => {
            return None;
        }
    };
    Some(Announcement {
        reason: fate.name(),
        action: fate.name(),
        warning: fate != Fate::ScaledDownUnmarked,
        note,
        related: Some(member.target().reference()),
    })
}
