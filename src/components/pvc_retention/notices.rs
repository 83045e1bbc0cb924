//! The Events of pvc-retention on a StatefulSet about its claims.

use super::{
    caches::{Member, pod_name},
    fate::Fate,
};
use crate::{
    cluster::{self, EventContent},
    objects::{CompactText, ObjectName},
};
use std::sync::Arc;

/// The Events already published on each StatefulSet, by claim and reason.
pub type EventDeduplicator = cluster::EventDeduplicator<ObjectName, (Arc<str>, &'static str)>;

/// The Event on the StatefulSet with this uid about a claim with this fate; none if the fate needs
/// no Event.
pub fn event_content(
    (set, uid): (&ObjectName, &CompactText),
    member: &Member,
    fate: Fate,
) -> Option<EventContent> {
    let (claim, pod) = (&member.name.name, pod_name(&set.name, member.ordinal));
    let note = match fate {
        Fate::ConflictingController => format!(
            "claim \"{claim}\" has an owner reference with controller=true to another object, so \
             the retention policy of this StatefulSet is not applied to the claim"
        ),
        Fate::PodBlockedByClaim => format!(
            "pod \"{pod}\" cannot be created before the deletion of claim \"{claim}\" is complete"
        ),
        Fate::ScaledDownUnmarked => {
            let why = if member.claim.rare.scaled_with.as_ref() == Some(uid) {
                "another object owns it"
            } else {
                "it has no marker which shows that whenScaled was Delete while the claim was \
                     in range"
            };
            format!(
                "claim \"{claim}\" is out of range and has no pod, but is kept although whenScaled \
                 is Delete: {why}. Delete the claim if its data is not needed"
            )
        }
        Fate::Retained
        | Fate::DeletedWithSet
        | Fate::DeletedWithPod
        | Fate::StaleOwner
        | Fate::Terminating => {
            return None;
        }
    };
    Some(EventContent {
        reason: fate.name(),
        action: fate.name(),
        warning: fate != Fate::ScaledDownUnmarked,
        note,
        related: Some(member.target().reference()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{
        Claim,
        claim::{ClaimWire, SCALED_WITH},
    };
    use serde_json::json;

    /// The Event names the cause for which the claim is kept, and no scale-down: the claim may have
    /// been created in advance.
    #[test]
    fn a_claim_out_of_range_is_kept_for_its_marker_or_its_owner() {
        let note = |mark: &str| {
            let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "o"});
            let claim = json!({"metadata": {"namespace": "ns", "name": "data-web-3", "uid": "c",
                "annotations": {SCALED_WITH: mark}, "ownerReferences": [owner]}});
            let claim: ClaimWire = serde_json::from_value(claim).expect("a claim");
            let member = Member {
                name: ObjectName::new("ns", "data-web-3"),
                claim: Arc::new(Claim::from(claim)),
                ordinal: 3,
                own: true,
                stale: false,
            };
            let set = (&ObjectName::new("ns", "web"), &"set".into());
            let event = event_content(set, &member, Fate::ScaledDownUnmarked);
            event.expect("an Event").note
        };
        let (marked, other) = (note("set"), note("an earlier set"));
        assert!(marked.contains("another object owns it"), "{marked}");
        assert!(other.contains("it has no marker"), "{other}");
        for note in [marked, other] {
            assert!(!note.contains("after a scale-down"), "{note}");
        }
    }
}
