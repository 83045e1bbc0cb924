//! Explains claims that block a pod of the StatefulSet, because they are being deleted
//! (kubernetes/kubernetes#74374), and claims of which no owner exists.

use super::SetContext;
use crate::why::{
    Cause, Code, Evidence, Lookup, Object,
    explain::{claim, pod::claims, retention},
    read::PersistentVolumeClaim,
};

/// Reads the claims of the pod with this ordinal, one for each claim template. Each comes with its
/// name.
pub(super) fn claims(
    one: &SetContext<'_>,
    ordinal: u32,
) -> Vec<(String, Lookup<PersistentVolumeClaim>)> {
    let templates = one.trimmed.templates.iter();
    let set = &one.object.name.name;
    let names: Vec<String> = templates
        .map(|template| format!("{template}-{set}-{ordinal}"))
        .collect();
    let namespace = one.object.namespace_name();
    let lookups = one.reads.each(namespace, names.iter().map(String::as_str));
    names.into_iter().zip(lookups).collect()
}

/// The chain of causes if a claim of the pod with this ordinal is being deleted and the pod cannot
/// use it, or if the claim has owners, none of which exists. Empty otherwise.
pub(super) fn causes(one: &SetContext<'_>, ordinal: u32) -> Vec<Cause> {
    let known = claims(one, ordinal);
    let found = known.iter().filter_map(|(name, lookup)| match lookup {
        Lookup::Found(claim) => Some((Object::claim(one.object.namespace_name(), name), claim)),
        Lookup::Absent | Lookup::Unread => None,
    });
    let going = found
        .clone()
        .find(|(_, claim)| claims::is_lost(claim, one.pods.get(ordinal)));
    if let Some((object, claim)) = going {
        let stale = stale(&object, claim, ordinal, one);
        let held = claim::causes(one.reads, &object, claim);
        return [stale].into_iter().chain(held).collect();
    }
    // A claim that is already being deleted, and that the pod can still use, is no cause.
    let mut staying = found.filter(|(_, claim)| claim.metadata.deletion_timestamp.is_none());
    let dead = staying.find_map(|(object, claim)| retention::dead_owner(one.reads, &object, claim));
    dead.into_iter().collect()
}

fn stale(
    object: &Object,
    claim: &PersistentVolumeClaim,
    ordinal: u32,
    one: &SetContext<'_>,
) -> Cause {
    let since = claim.metadata.deletion_timestamp.as_ref();
    let (name, set) = (&object.name.name, &one.object.name.name);
    let sentence = format!(
        "The claim {name} of an earlier pod is still being deleted, and the pod {set}-{ordinal} cannot use it. Once the claim is \
         deleted, the StatefulSet recreates it, empty."
    );
    let evidence = Evidence::new(object.to_string(), "metadata.deletionTimestamp");
    let evidence = evidence.since(since.map(|time| time.0));
    Cause::new(Code::PodBlockedByClaim, sentence, evidence).run(
        format!("volume-warden why {}", object.arguments()),
        "to see what keeps the claim",
    )
}
