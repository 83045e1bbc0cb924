//! Claims that can be bound only to an existing volume, because they name it or no provisioner
//! creates one.

use super::blocked_volume;
use crate::objects::{fit::class_of, trash::UNDELETE};
use crate::why::{
    Cause, Code, Evidence, LiveReads, Lookup, Object, Selection,
    explain::{
        controllers, quote, reuse, trash,
        volumes::{Difference, Misfit, differing, fits, lacking, parked_for, taken},
    },
    read::{PersistentVolume, PersistentVolumeClaim},
};
use kube::ResourceExt;

/// Maximum number of volumes in a message that lists how volumes differ from the claim.
const NAMED: usize = 3;

/// Explains a Pending claim that names its volume in `spec.volumeName`.
pub(super) fn named(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
    name: &str,
) -> Option<Cause> {
    let evidence = Evidence::new(object.to_string(), "spec.volumeName");
    let volume = match reads.get::<PersistentVolume>("", name) {
        Lookup::Found(volume) => volume,
        Lookup::Unread => return None,
        Lookup::Absent => {
            let sentence = format!(
                "The claim names the volume {}, which does not exist, and it can be bound to no other volume.",
                quote::name(name)
            );
            return Some(Cause::new(Code::VolumeMissing, sentence, evidence).run(
                "kubectl get pv",
                "to list the volumes; to name another volume, recreate the claim",
            ));
        }
    };
    if let Some(deleted) = &volume.metadata.deletion_timestamp {
        return blocked_volume(reads, &volume, &Misfit::Deleting(deleted.0));
    }
    let spec = volume.spec.as_ref()?;
    let taken = taken(spec, claim);
    if let Some(cause) = taken
        .as_ref()
        .and_then(|_| not_restored(object, claim, &volume))
    {
        return Some(cause);
    }
    match taken {
        Some(Misfit::Taken(other)) => return Some(taken_by(&volume, &other)),
        Some(Misfit::Former(uid)) if let Some(how) = lacking(spec, claim.spec.as_ref()?) => {
            return Some(unlike_former(reads, &volume, &uid, &how));
        }
        Some(misfit) => return blocked_volume(reads, &volume, &misfit),
        // Kubernetes compares nothing else if the claim and the volume name each other.
        None if spec.claim_ref.is_some() => {
            return binder(
                object,
                &format!("The claim and the volume {name} name each other"),
            );
        }
        None => {}
    }
    let Some(misfit) = differing((&volume, spec), (claim, claim.spec.as_ref()?)) else {
        return binder(object, &format!("The volume {name} fits the claim"));
    };
    let sentence = format!("The claim names the volume {name}, which {misfit}.");
    let show = Object::volume(name).describe();
    Some(Cause::new(Code::NoMatchingVolume, sentence, evidence).run(
        show,
        "to compare the volume with the claim; recreate the one that is wrong",
    ))
}

/// The cause that the claim requests the data of a volume in the trash, which pvc-trash has not
/// reserved for it yet. Without the request, the claim would get an empty volume, and the data
/// would be purged at the end of its window.
fn not_restored(
    object: &Object,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Option<Cause> {
    claim.annotations().get(UNDELETE)?;
    trash::kept(volume)?;
    let sentence = format!(
        "The claim requests the data of the volume {}, which is in the trash; pvc-trash has not reserved it for the claim yet.",
        volume.name_any()
    );
    let evidence = Evidence::new(object.to_string(), "metadata.annotations");
    Some(Cause::new(Code::ProvisionerSilent, sentence, evidence).run(
        object.describe(),
        "to see the Event ErrRestore, if pvc-trash reported a failure; if there is none, check that \
         Volume Warden runs with the component pvc-trash. Do not recreate the claim without its \
         annotation",
    ))
}

/// The cause that the volume that the claim names belonged to an earlier claim of this name with
/// this uid, and lacks what the present claim requests.
fn unlike_former(
    reads: &LiveReads,
    volume: &PersistentVolume,
    uid: &str,
    how: &Difference,
) -> Cause {
    let object = Object::volume(&volume.name_any());
    let sentence = format!(
        "The volume {} belonged to an earlier claim of this name (uid {}). Kubernetes never binds it to a new claim of the same name, and this volume {how}.",
        object.name,
        quote::name(uid)
    );
    let evidence = Evidence::new(object.to_string(), "spec.claimRef.uid");
    let cause = Cause::new(Code::ClaimReplaced, sentence, evidence);
    let purpose = "to compare the volume with the claim; if the claim is to get the data, recreate it with what the volume has, \
                   and run volume-warden why again";
    reuse::after_required(reads, volume, cause, (object.describe(), purpose))
}

/// The cause that the claim names a volume to which the claim `other` is or was bound. Its
/// `claimRef` is no reservation: without it, the volume of that claim would be lost.
fn taken_by(volume: &PersistentVolume, other: &str) -> Cause {
    let name = volume.name_any();
    let status = volume.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    let whose = match phase {
        Some("Bound") => format!("is bound to the claim {other}"),
        Some("Released" | "Failed") => {
            format!("belonged to the claim {other}, which is deleted")
        }
        _ => format!("belongs to the claim {other}"),
    };
    let sentence =
        format!("The claim names the volume {name}, which {whose}. It needs another volume.");
    let evidence = Evidence::new(Object::volume(&name).to_string(), "spec.claimRef");
    Cause::new(Code::VolumeReserved, sentence, evidence).run(
        Object::volume(&name).describe(),
        "to see the volume; then recreate this claim without the volumeName, or with that of a volume \
         that no claim has",
    )
}

/// The cause that kube-controller-manager has not bound the claim to a volume yet, although nothing
/// prevents that, as `why` says.
fn binder(object: &Object, why: &str) -> Option<Cause> {
    let sentence = format!("{why}; kube-controller-manager has not bound them yet.");
    let purpose = "to see whether kube-controller-manager runs, if the claim stays Pending";
    Some(controllers::late_binder(object, sentence, purpose))
}

/// Explains a Pending claim that no provisioner serves, by comparing it with every volume that is
/// not parked. `why` says, as the rest of a sentence about the claim, why only an existing volume
/// can be bound.
pub(super) fn any(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
    why: &str,
) -> Option<Cause> {
    let volumes = reads
        .list::<PersistentVolume>("", Selection::default())
        .found()?;
    // Volumes that pv-releaser has parked are left out: each waits for the next claim of one
    // namespace, and a message must not show that name to the users of other namespaces.
    let judged: Vec<_> = volumes
        .iter()
        .filter(|volume| parked_for(volume).is_none())
        .map(|volume| (volume, fits(volume, claim)))
        .collect();
    if let Some((fitting, _)) = judged.iter().find(|(_, judged)| judged.is_ok()) {
        let why = format!("The volume {} fits the claim", fitting.name_any());
        return binder(object, &why);
    }
    let misfits = judged
        .iter()
        .filter_map(|(volume, judged)| Some((*volume, judged.as_ref().err()?)));
    // A volume with the data of an earlier claim of this name is reported before any other.
    let is_former = |(_, misfit): &(_, &Misfit)| matches!(misfit, Misfit::Former(_));
    let former = misfits.clone().filter(is_former);
    if let Some(near) = former
        .chain(misfits.clone())
        .find_map(|(volume, misfit)| blocked_volume(reads, volume, misfit))
    {
        return Some(near);
    }
    let compared = compared(claim, misfits);
    let sentence =
        format!("The claim {why}, and no existing volume can be bound to it: {compared}.");
    let evidence = Evidence::new(object.to_string(), "spec");
    Some(Cause::new(Code::NoMatchingVolume, sentence, evidence).run(
        "kubectl get pv",
        "to list the volumes; a volume that fits the claim has to be created",
    ))
}

/// Why none of the volumes, which are not in the way of the claim, can be bound to it, as a clause.
fn compared<'a>(
    claim: &PersistentVolumeClaim,
    misfits: impl Iterator<Item = (&'a PersistentVolume, &'a Misfit)> + Clone,
) -> String {
    let unlike = misfits.clone().filter_map(|(volume, misfit)| match misfit {
        Misfit::Unlike(Difference::Class(_)) => None,
        Misfit::Unlike(how) => Some(format!("{} {how}", volume.name_any())),
        _ => None,
    });
    let field = claim.spec.as_ref();
    let field = field.and_then(|spec| spec.storage_class_name.as_ref());
    let class = quote::name(&class_of(claim.annotations(), field));
    let is_taken = |(_, misfit): &(_, &Misfit)| matches!(misfit, Misfit::Taken(_));
    let taken = match misfits.filter(is_taken).count() {
        0 => None,
        1 => Some(format!(
            "the only volume of the StorageClass {class:?} that fits belongs to another claim"
        )),
        many => Some(format!(
            "all {many} volumes of the StorageClass {class:?} that fit belong to other claims"
        )),
    };
    let all: Vec<String> = taken.into_iter().chain(unlike.take(NAMED)).collect();
    if all.is_empty() {
        format!("there is no volume of the StorageClass {class:?}")
    } else {
        all.join(", ")
    }
}
