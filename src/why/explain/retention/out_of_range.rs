//! Explains claims whose ordinal is out of the range of their StatefulSet: their owner references
//! and their pod decide what happens to them.

use super::is_dead;
use crate::{
    objects::{self, stateful_set::Policy},
    why::{
        Cause, Code, Evidence, LiveReads, Lookup, Object,
        read::{PersistentVolumeClaim, Pod},
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use std::sync::Arc;

/// The cause for a claim whose ordinal is out of the range of the StatefulSet.
pub(super) fn cause(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
    (name, set): (&str, &objects::StatefulSet),
    ordinal: u32,
) -> Cause {
    let pod = format!("{name}-{ordinal}");
    let lookup = reads.get::<Pod>(object.namespace_name(), &pod);
    let evidence = Evidence::new(object.to_string(), "metadata.ownerReferences");
    let owners = claim.owner_references();
    if let Some(after) = deleted_after(reads, object, owners, (set, &pod), &lookup) {
        let sentence = format!(
            "The ordinal {ordinal} of the StatefulSet {name} is out of range. The claim is deleted \
             after {after}."
        );
        return Cause::new(Code::DeletedByPolicy, sentence, evidence)
            .wait("the retention policy of the StatefulSet decides");
    }
    let owned = owners.iter().any(|owner| set.uid == owner.uid);
    let (code, fate) = match (owned, owners.len()) {
        (true, 1) => (
            Code::DeletedByPolicy,
            "is deleted with the StatefulSet, which owns it",
        ),
        (true, _) => (
            Code::DeletedByPolicy,
            "is deleted once neither the StatefulSet, which owns it, nor another owner exists",
        ),
        (false, _) => (
            Code::KeptByPolicy,
            "is kept, because the StatefulSet does not own it",
        ),
    };
    // The present policy does not matter: the owner references of the claim were written when its
    // pod was removed.
    let sentence = match lookup {
        Lookup::Absent => format!(
            "The StatefulSet {name} has no pod {ordinal} any more. The claim was kept when that pod \
             was removed by scaling down, and {fate}."
        ),
        Lookup::Found(_) | Lookup::Unread => format!(
            "The ordinal {ordinal} of the StatefulSet {name} is out of range. The claim {fate}."
        ),
    };
    Cause::new(code, sentence, evidence).wait("a new pod with that ordinal uses the claim again")
}

/// Returns what the claim is deleted after: its pod, if that owns it or will own it; none if the
/// deletion of its pod does not delete it.
fn deleted_after(
    reads: &LiveReads,
    object: &Object,
    owners: &[OwnerReference],
    (set, pod): (&objects::StatefulSet, &str),
    lookup: &Lookup<Arc<Pod>>,
) -> Option<String> {
    let is_pod = |owner: &OwnerReference| {
        owner.api_version == "v1" && owner.kind == "Pod" && owner.name == pod
    };
    // The garbage collector removes a reference to a pod that does not exist.
    let owns =
        |owner: &OwnerReference| is_pod(owner) && is_dead(reads, object, owner) != Some(true);
    if owners.iter().any(owns) {
        return Some(match owners.len() {
            1 => format!("its pod {pod}, which owns it"),
            _ => format!("its pod {pod} and its other owners"),
        });
    }
    let Lookup::Found(found) = lookup else {
        return None;
    };
    let will_own = found.trimmed.stateful_set.as_ref() == Some(&set.uid)
        && set.retention.unwrap_or_default().when_scaled == Policy::Delete
        && owners.iter().all(|owner| set.uid == owner.uid);
    will_own.then(|| format!("its pod {pod}, once that pod owns it (whenScaled: Delete)"))
}
