//! What users are told of the claims of a set.

use super::{
    caches::{Member, pod_name},
    rule::Fate,
};
use crate::{
    cluster::{self, Announcement},
    objects::ObjectName,
};
use std::sync::Arc;

/// What was told of each set's claims, by claim and reason.
pub type EventDeduplicator = cluster::EventDeduplicator<ObjectName, (Arc<str>, &'static str)>;

/// What users are told of a claim with this fate, regarding its set, if anything.
pub fn announcement(set: &ObjectName, member: &Member, fate: Fate) -> Option<Announcement> {
    let (claim, pod) = (&member.name.name, pod_name(&set.name, member.ordinal));
    let note = match fate {
        Fate::ConflictingController => format!(
            "claim \"{claim}\" is controlled by somebody else, so the retention policy is not applied to it"
        ),
        Fate::PodBlockedByClaim => format!(
            "pod \"{pod}\" cannot be created before claim \"{claim}\", which is being deleted, is gone"
        ),
        Fate::ScaledDownUnmarked => format!(
            "claim \"{claim}\" was scaled away and has no pod, but is kept: nothing says that whenScaled was Delete while it was in \
             range. Delete it by hand if it is not for later"
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
