//! The Events of pvc-expiry.

use super::{
    reasons::{CANNOT_EXPIRE, EXPIRED, EXPIRING, EXPIRY_CANCELLED},
    restorable::Obstacle,
};
use crate::{
    cluster::EventContent,
    objects::{
        ObjectName, expiry::EXPIRE_UNUSED, trash::TrashRecord, undelete_window::UNDELETE_WINDOW,
    },
};
use k8s_openapi::jiff::Timestamp;

/// The Event that a claim is deleted at the time `at`, unless a pod names it before.
pub fn expiring(claim: &ObjectName, at: Timestamp, record: Option<&TrashRecord>) -> EventContent {
    let window = record.map(|record| format!(" Its data can then be restored {}.", period(record)));
    let note = format!(
        "no pod has used claim {claim} for a long time, so it will be deleted at {at}, unless \
         a pod names it before.{} To keep it: kubectl annotate pvc {} -n {} {EXPIRE_UNUSED}=off --overwrite",
        window.unwrap_or_default(),
        claim.name,
        claim.namespace,
    );
    EventContent::warning(EXPIRING, "AnnounceExpiry", note)
}

/// The Event that a claim is not deleted at the announced time.
pub fn cancelled(claim: &ObjectName) -> EventContent {
    let note = format!(
        "claim {claim} is not deleted at the announced time: a pod or another object uses it, an \
         annotation keeps it, its data could not be restored, or Volume Warden has not watched the \
         cluster for long enough"
    );
    EventContent::normal(EXPIRY_CANCELLED, "CancelExpiry", note)
}

/// The Event that a claim was deleted because it was not used.
pub fn expired(claim: &ObjectName, record: &TrashRecord) -> EventContent {
    let note = format!(
        "no pod has used claim {claim} for the time that {EXPIRE_UNUSED} says, so it is deleted. Its \
         data is kept {}. To restore it: {}",
        period(record),
        record.command(),
    );
    EventContent::normal(EXPIRED, "Expire", note)
}

/// The Event that an unused claim is kept, because its data could not be restored if the claim
/// was deleted.
pub fn no_window(claim: &ObjectName, obstacle: Obstacle) -> EventContent {
    let note = format!(
        "claim {claim} is unused and would expire, but is kept: its data could not be restored, \
         because {}",
        cause(obstacle)
    );
    EventContent::warning(CANNOT_EXPIRE, CANNOT_EXPIRE, note)
}

fn cause(obstacle: Obstacle) -> String {
    match obstacle {
        Obstacle::Volume => {
            "its volume does not exist, is not Bound to it, or is being deleted".to_owned()
        }
        Obstacle::ClassWindow => format!(
            "its StorageClass has no annotation {UNDELETE_WINDOW} with a duration above zero"
        ),
        Obstacle::Purge => "a purge of its data is requested".to_owned(),
        Obstacle::ClaimWindow => {
            format!("its undelete window is zero, by the annotation {UNDELETE_WINDOW} of the claim")
        }
        Obstacle::Unrecorded => {
            "its volume has no valid record of pvc-trash: the component is not \
             enabled, the trash of the namespace is full, or the record cannot be read"
                .to_owned()
        }
        Obstacle::Policy => "the reclaim policy of its volume is not Retain".to_owned(),
    }
}

/// The Event that a claim does not expire, because the value of its annotation is invalid.
pub fn unreadable_of_claim(claim: &ObjectName, error: &str) -> EventContent {
    let note = format!(
        "the annotation {EXPIRE_UNUSED} of claim {claim} cannot be read, so the claim does not \
         expire, whatever its StorageClass says: {error}"
    );
    EventContent::warning(CANNOT_EXPIRE, CANNOT_EXPIRE, note)
}

/// The Event that the value of a StorageClass's annotation is invalid, so that only claims with an
/// annotation of their own expire.
pub fn unreadable_of_class(class: &str, error: &str) -> EventContent {
    let note = format!(
        "the annotation {EXPIRE_UNUSED} of StorageClass {class} cannot be read, so only claims \
         with an annotation of their own expire: {error}"
    );
    EventContent::warning(CANNOT_EXPIRE, CANNOT_EXPIRE, note)
}

/// The Event for a StorageClass whose claims cannot expire, because it has no valid undelete window
/// above zero.
pub fn class_without_window(class: &str) -> EventContent {
    let note = format!(
        "StorageClass {class} has the annotation {EXPIRE_UNUSED}, but its claims do not expire: \
         it has no annotation {UNDELETE_WINDOW} with a duration above zero, so their data could \
         not be restored"
    );
    EventContent::warning(CANNOT_EXPIRE, CANNOT_EXPIRE, note)
}

/// The Event that an unused claim is kept, because what names it could not be read. It has no text
/// of the API server, which could name objects that users of the namespace may not read.
pub fn unread(claim: &ObjectName) -> EventContent {
    let note = format!(
        "claim {claim} is unused and would expire, but is kept: Volume Warden cannot list the \
         workloads of its namespace, or a kind of --expiry-references, or no object of that kind \
         has a text at its path. The log of Volume Warden names the cause"
    );
    EventContent::warning(CANNOT_EXPIRE, CANNOT_EXPIRE, note)
}

/// How long the data can be restored. A volume that had the policy Retain at first is not purged.
fn period(record: &TrashRecord) -> String {
    record.window().map_or_else(
        || "until an administrator deletes its volume".to_owned(),
        |window| format!("for {window}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A user who follows the Event must not look for a cause that does not hold.
    #[test]
    fn a_claim_that_is_kept_has_one_cause() {
        let note = |obstacle| no_window(&ObjectName::new("shop", "data"), obstacle).note;
        for (obstacle, clause) in [
            (Obstacle::Volume, "or is being deleted"),
            (Obstacle::ClassWindow, "its StorageClass has no annotation"),
            (Obstacle::Purge, "a purge of its data is requested"),
            (Obstacle::ClaimWindow, "its undelete window is zero"),
            (Obstacle::Unrecorded, "no valid record"),
            (Obstacle::Policy, "is not Retain"),
        ] {
            let note = note(obstacle);
            assert!(note.contains(clause), "{note}");
            let blamed = note.contains("the component is not enabled");
            assert_eq!(blamed, obstacle == Obstacle::Unrecorded, "{note}");
        }
    }

    /// pvc-trash purges no volume that had the policy Retain.
    #[test]
    fn an_expired_claim_says_how_long_its_data_is_kept() {
        let note = |policy: &str| {
            let claim = json!({"namespace": "shop", "name": "data", "uid": "c"});
            let record = json!({"policy": policy, "windowSeconds": 3600, "claim": claim});
            let record: TrashRecord = serde_json::from_value(record).expect("a record");
            let name = ObjectName::new("shop", "data");
            let announced = expiring(&name, Timestamp::UNIX_EPOCH, Some(&record)).note;
            (announced, expired(&name, &record).note)
        };
        for (policy, period) in [
            ("Delete", "for 1h."),
            ("Retain", "until an administrator deletes its volume."),
        ] {
            let (announced, expired) = note(policy);
            assert!(
                announced.contains(&format!("restored {period}")),
                "{announced}"
            );
            assert!(expired.contains(&format!("kept {period}")), "{expired}");
        }
    }

    /// Without the uid of the namespace, only an administrator can restore the claim.
    #[test]
    fn an_expired_claim_names_the_command_that_restores_it() {
        let note = |namespace_uid| {
            let claim = json!({"namespace": "shop", "name": "data", "uid": "c",
                "namespaceUid": namespace_uid});
            let record = json!({"policy": "Delete", "windowSeconds": 3600, "claim": claim});
            let record: TrashRecord = serde_json::from_value(record).expect("a record");
            expired(&ObjectName::new("shop", "data"), &record).note
        };
        let command = "volume-warden undelete pvc data -n shop";
        assert!(note(Some("n")).ends_with(command));
        assert!(note(None).ends_with(&format!("{command} --to-namespace shop")));
    }
}
