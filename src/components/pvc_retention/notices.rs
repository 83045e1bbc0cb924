//! Events on a set about its claims.

use super::{
    caches::{Member, pod_name},
    rule::Fate,
};
use crate::{
    cluster::{self, Announcement},
    objects::ObjectName,
};
use std::sync::Arc;

/// Events already published for each set, by claim and reason.
pub type EventDeduplicator = cluster::EventDeduplicator<ObjectName, (Arc<str>, &'static str)>;

/// The Event on the set about a claim with this fate, if the fate needs one.
pub fn announcement(set: &ObjectName, member: &Member, fate: Fate) -> Option<Announcement> {
    let (claim, pod) = (&member.name.name, pod_name(&set.name, member.ordinal));
    let note = match fate {
        Fate::ConflictingController => format!(
            "claim \"{claim}\" has another controller, so the retention policy is not applied to it"
        ),
        Fate::PodBlockedByClaim => format!(
            "pod \"{pod}\" cannot be created until claim \"{claim}\", which is being \
             deleted, is gone"
        ),
        Fate::ScaledDownUnmarked => format!(
            "claim \"{claim}\" is out of range after a scale-down and has no pod, but is kept: it \
             has no marker that whenScaled was Delete while it was in range. Delete it \
             manually if it is not needed"
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
