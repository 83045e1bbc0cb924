//! Why the webhook refuses a claim that requests the data of a deleted one.

use crate::{
    admission::Answer,
    objects::{
        ObjectName,
        trash::MAX_UNBINDABLE,
        undelete_request::{UNDELETE, of_claim, of_volume},
    },
};

/// The refusal of a claim that requests data which is not in the trash of its namespace. It is the
/// same if a deleted claim of an earlier namespace had the requested name: users do not learn which
/// claims others had.
pub(super) fn unknown(requested: &str, namespace: &str) -> Answer {
    refuse(format!(
        "no deleted claim {requested:?} of the namespace {namespace} is in the trash. Check its \
         name, and whether its undelete window has ended. If the namespace was deleted and \
         recreated after the claim, only an administrator can restore it, with the flag \
         --to-namespace of volume-warden undelete. A claim without the annotation {UNDELETE} gets a \
         new volume"
    ))
}

/// The refusal of a claim that could get the data of two deleted claims of its namespace.
pub(super) fn ambiguous(requested: &str) -> Answer {
    refuse(format!(
        "{requested:?} is the name of a deleted claim and of the volume of another one: write {:?} \
         or {:?} in the annotation {UNDELETE}",
        of_claim(requested),
        of_volume(requested)
    ))
}

/// The refusal of a claim that requests the data of one of several deleted claims of a name, if it
/// is not known which of them was deleted last. All were in the namespace of the claim, by uid.
pub(super) fn unordered(requested: &str, [one, other]: [&str; 2]) -> Answer {
    refuse(format!(
        "it is not known which of several deleted claims {requested:?} was deleted last. Name the \
         volume: write {:?} or {:?} in the annotation {UNDELETE}, or use the flag --volume of \
         volume-warden undelete",
        of_volume(one),
        of_volume(other)
    ))
}

/// The refusal of a claim that requests the data of a deleted one whose volume is not in the trash
/// yet, or is being restored.
pub(super) fn not_in_trash_yet(requested: &str) -> Answer {
    refuse(format!(
        "the volume of the deleted claim {requested:?} is not Released yet, or its data is being \
         restored: try again in a minute. For the data of an earlier claim of this name, use the \
         flag --volume of volume-warden undelete"
    ))
}

/// The refusal of a claim whose name an existing claim has, or had until now, to which the
/// requested volume is bound. The API server reports such a name only after admission.
pub(super) fn claim_exists(requested: &str, creating: &ObjectName) -> Answer {
    refuse(format!(
        "the claim {} exists, or is just being deleted, and the volume that {requested:?} means is \
         bound to it. To restore the data of an earlier claim, select its volume with the flag \
         --volume of volume-warden undelete. Set another name for the new claim with --new-name, or \
         delete the existing claim first",
        creating.name
    ))
}

/// The refusal of a claim that requests a volume to which too many claims could not be bound.
pub(super) fn unbindable(requested: &str) -> Answer {
    refuse(format!(
        "{MAX_UNBINDABLE} claims could not be bound to the volume of the deleted claim \
         {requested:?}, so only an administrator can restore it, with the flag --to-namespace of \
         volume-warden undelete"
    ))
}

pub(super) fn refuse(message: String) -> Answer {
    Answer::Deny { code: 422, message }
}
