//! Explains Lost claims, and Bound claims whose volume does not name them.
//!
//! Source: `syncBoundClaim` in `pkg/controller/volume/persistentvolume/pv_controller.go` of
//! Kubernetes. A claim with the annotation `bind-completed` is Lost if its volume does not exist,
//! or if the uid in `claimRef` is not that of the claim, also if it is empty.

use crate::{
    objects::keys::{BIND_COMPLETED, BINDER_PREFIX},
    why::{
        Cause, Code, Evidence, LiveReads, Lookup, Object,
        explain::{controllers, quote, reuse, trash},
        read::{PersistentVolume, PersistentVolumeClaim},
    },
};
use kube::ResourceExt;

/// Returns the cause for a Lost claim whose volume does not exist any more, has no
/// `claimRef`, or belongs to another claim now, which may be an earlier claim of the same name.
/// Empty if the volume could not be read.
pub(super) fn causes(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> Vec<Cause> {
    let volume = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.as_deref());
    let volume = volume.unwrap_or_default();
    match reads.get::<PersistentVolume>("", volume) {
        Lookup::Found(found) => vec![misbound(object, claim, &found)],
        Lookup::Absent => vec![missing(object, volume)],
        Lookup::Unread => Vec::new(),
    }
}

/// The cause for a claim whose volume does not exist.
pub(super) fn missing(object: &Object, volume: &str) -> Cause {
    let sentence = format!(
        "The claim was bound to the volume {}, which does not exist any more. If the storage \
         of that volume still exists, create a PersistentVolume with the same name, source and \
         claimRef and the policy Retain: it makes the claim Bound again.",
        quote::name(volume)
    );
    let evidence = Evidence::new(object.to_string(), "spec.volumeName");
    Cause::new(Code::VolumeMissing, sentence, evidence).run(
        object.describe(),
        "to see what the claim requested; then recreate the volume, or restore its data into a new claim",
    )
}

/// The cause for a claim whose volume exists.
pub(super) fn misbound(
    object: &Object,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Cause {
    let reference = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    let owner = reference.and_then(|of| Some((of.namespace.as_deref()?, of.name.as_deref()?)));
    if owner == Some((object.namespace_name(), &*object.name.name)) {
        let uid = reference.and_then(|of| of.uid.as_deref());
        return of_this_name(object, claim, volume, uid.unwrap_or_default());
    }
    let Some((namespace, claim)) = owner else {
        let name = volume.name_any();
        return to_be_bound(
            object,
            &format!("The claim was bound to the volume {name}, which belongs to no other claim"),
        );
    };
    let sentence = format!(
        "The claim was bound to the volume {}, which now belongs to the claim {namespace}/{claim}.",
        volume.name_any(),
    );
    let evidence = Evidence::new(object.to_string(), "spec.volumeName");
    Cause::new(Code::VolumeReserved, sentence, evidence).run(
        Object::volume(&volume.name_any()).describe(),
        "to see which claim the volume belongs to; this claim is bound again only if the volume is \
         given back to it",
    )
}

/// The cause that kube-controller-manager has not bound the claim again yet, although it would, as
/// `why` says.
fn to_be_bound(object: &Object, why: &str) -> Cause {
    let sentence = format!("{why}; kube-controller-manager has not bound them again yet.");
    let purpose =
        "to see whether kube-controller-manager runs, if the two are not bound to each other soon";
    controllers::late_binder(object, sentence, purpose)
}

/// The cause for a claim whose volume has the name of the claim in `claimRef`, with this uid.
fn of_this_name(
    object: &Object,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    uid: &str,
) -> Cause {
    let name = volume.name_any();
    if uid == claim.uid().unwrap_or_default() {
        return to_be_bound(
            object,
            &format!("The claim and the volume {name} name each other"),
        );
    }
    let (code, whose) = if uid.is_empty() {
        let whose = "is reserved for a claim of this name, without a uid".to_owned();
        (Code::VolumeReserved, whose)
    } else {
        let whose = format!("belongs to an earlier claim of this name (uid {uid})");
        (Code::ClaimReplaced, whose)
    };
    let sentence = format!(
        "The claim is marked as bound to the volume {name}, which {whose}. A claim with the annotation {BIND_COMPLETED} is Lost even if claimRef has \
         no uid."
    );
    let evidence = Evidence::new(Object::volume(&name).to_string(), "spec.claimRef.uid");
    recreate(object, volume, Cause::new(code, sentence, evidence))
}

/// Adds the next step: to create the claim again without the annotations of the volume binder. If
/// the volume would not keep its data meanwhile, the step saves the data first.
fn recreate(object: &Object, volume: &PersistentVolume, cause: Cause) -> Cause {
    if trash::is_purged(volume) {
        return cause.run(
            Object::volume(&volume.name_any()).describe(),
            "to see whether the volume is deleted yet: it was in the trash and is purged, so its data cannot be restored",
        );
    }
    if !volume.trimmed.retains() || volume.trimmed.deleting {
        return reuse::rescue(volume, cause);
    }
    let purpose = format!(
        "to save the manifest of the claim. Then delete the claim, which does not delete the volume, and create it again from the manifest \
         without status, uid, resourceVersion and the annotations under {BINDER_PREFIX}; volume-warden why for the new claim then \
         says how it gets the volume"
    );
    let name = &object.name.name;
    cause.run(
        format!("kubectl get {} -o yaml > {name}.yaml", object.arguments()),
        purpose,
    )
}
