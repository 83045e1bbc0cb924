//! Explains volumes that are being deleted.

use crate::{
    causes::{self, ATTACHER, Holder, PROVISIONER, PV_CONTROLLER},
    components::pv_protection::PvProtection,
    why::{
        Cause, Code, LiveReads, Lookup, Object,
        explain::{attachments, claim, controllers, quote, reuse, writers},
        read::{PersistentVolume, PersistentVolumeClaim},
    },
};
use kube::ResourceExt;

/// The chain of causes for the first holder of the volume (its claim, or a finalizer), and one
/// cause for each further holder.
pub(super) fn causes(
    reads: &LiveReads,
    object: &Object,
    volume: &PersistentVolume,
) -> (Vec<Cause>, Vec<Cause>) {
    let holders = causes::volume_holders(&volume.trimmed).collect::<Vec<_>>();
    let also = holders.iter().skip(1);
    let also = also.map(|holder| foreign(reads, object, volume, holder));
    let chain = holders.first().map(|first| match first {
        Holder::Claim(_) => bound(reads, causes::describe(object, first), volume),
        Holder::NoClaim => controllers::causes(
            reads,
            causes::describe(object, first),
            &PvProtection,
            volume.metadata.deletion_timestamp.as_ref(),
        ),
        _ => vec![foreign(reads, object, volume, first)],
    });
    (chain.unwrap_or_default(), also.collect())
}

/// The chain of causes for a volume that its claim holds. If the claim is being deleted, too, the
/// chain continues with what holds the claim; if it does not exist, kube-controller-manager is
/// late. Otherwise the next step saves the data of the volume.
fn bound(reads: &LiveReads, bound: Cause, volume: &PersistentVolume) -> Vec<Cause> {
    let reference = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    let Some((namespace, name)) =
        reference.and_then(|each| Some((each.namespace.as_deref()?, each.name.as_deref()?)))
    else {
        return vec![bound];
    };
    let object = Object::claim(namespace, name);
    let uid = reference.and_then(|each| each.uid.as_deref());
    match reads.get::<PersistentVolumeClaim>(namespace, name) {
        Lookup::Found(found) if found.uid().as_deref() != uid => vec![late(&bound)],
        Lookup::Absent => vec![late(&bound)],
        Lookup::Found(found) if found.metadata.deletion_timestamp.is_some() => {
            let further = claim::causes(reads, &object, &found);
            std::iter::once(bound).chain(further).collect()
        }
        // The deletion of the claim would delete the volume too, with its data if the policy is not
        // Retain, so the next step saves the data first.
        Lookup::Found(_) => vec![reuse::rescue(volume, bound)],
        Lookup::Unread => vec![bound.wait("the volume can be deleted once the claim is deleted")],
    }
}

/// The cause that kube-controller-manager has not changed the phase of the volume from Bound yet,
/// although the volume's claim is deleted.
fn late(bound: &Cause) -> Cause {
    let sentence = "The claim of the volume is deleted, and kube-controller-manager has not updated the phase of the volume yet.";
    Cause::new(Code::Bound, sentence, bound.evidence.clone()).run(
        controllers::in_tree_lease().describe(),
        "to see whether kube-controller-manager runs, if the volume stays Bound",
    )
}

/// The cause for a finalizer of another controller. For the finalizer of an external-attacher or
/// of a provisioner, the cause says which of its steps is missing.
fn foreign(
    reads: &LiveReads,
    object: &Object,
    volume: &PersistentVolume,
    holder: &Holder<'_>,
) -> Cause {
    match holder {
        Holder::Finalizer(finalizer) if finalizer.starts_with(ATTACHER) => {
            attached(reads, object, &causes::describe(object, holder))
        }
        Holder::Finalizer(PROVISIONER | PV_CONTROLLER) => {
            storage_not_deleted(object, volume, holder)
        }
        _ => writers::describe(object, holder, &volume.metadata),
    }
}

fn storage_not_deleted(object: &Object, volume: &PersistentVolume, holder: &Holder<'_>) -> Cause {
    let status = volume.status.as_ref();
    let message = status.and_then(|status| status.message.as_deref());
    let message = message.filter(|message| !message.is_empty());
    let mut cause = causes::describe(object, holder);
    if let Some(message) = message {
        let message = format!("The volume's status says: {}", quote::sentence(message));
        cause = cause.adding(&message);
    }
    Cause::new(Code::StorageNotDeleted, cause.sentence, cause.evidence).run(
        object.describe(),
        "to see the messages of the volume's driver; then check that the driver runs",
    )
}

fn attached(reads: &LiveReads, object: &Object, cause: &Cause) -> Cause {
    let Some(all) = attachments::all(reads) else {
        return cause.clone();
    };
    let attachment = attachments::of(&all, &object.name.name).next();
    let Some(attachment) = attachment else {
        let describe = object.describe();
        return Cause::new(Code::ForeignFinalizer, cause.sentence.clone(), cause.evidence.clone())
            .run(describe, "to see the volume's driver; no node has the volume attached any more, so the driver's external-attacher is late or not running");
    };
    attachments::attached(attachment)
}
