//! Explains volumes whose claim is deleted.

use crate::{
    objects::{
        CompactText,
        managed_by::RELEASER_LABEL,
        reuse::{CLAIM_NAMESPACE, RELEASE_SCOPE, Record},
    },
    why::{
        Cause, Code, Evidence, LiveReads, Lookup, Object,
        explain::{attachments, claim, events, quote, reuse, trash, volumes::lacking},
        read::{PersistentVolume, PersistentVolumeClaim},
    },
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;

/// Explains why the volume is neither Available nor deleted.
pub(super) fn causes(reads: &LiveReads, object: &Object, volume: &PersistentVolume) -> Vec<Cause> {
    let spec = volume.spec.clone().unwrap_or_default();
    if spec.persistent_volume_reclaim_policy.as_deref() != Some("Retain") {
        return not_deleted(reads, object, volume).into_iter().collect();
    }
    let reference = spec.claim_ref.unwrap_or_default();
    let (namespace, name) = (
        reference.namespace.clone().unwrap_or_default(),
        reference.name.clone().unwrap_or_default(),
    );
    match reads.get::<PersistentVolumeClaim>(&namespace, &name) {
        Lookup::Found(other) if other.uid() != reference.uid => {
            vec![replaced(reads, object, volume, &other, &reference)]
        }
        // The claim still exists, so kube-controller-manager is about to make the volume Bound
        // again.
        Lookup::Found(_) => Vec::new(),
        Lookup::Absent => retained(reads, object, volume, &reference),
        Lookup::Unread => Vec::new(),
    }
}

/// The cause for a volume with the policy Delete or Recycle, whose storage is not deleted or
/// recycled yet. None if the Events of the volume could not be read.
fn not_deleted(reads: &LiveReads, object: &Object, volume: &PersistentVolume) -> Option<Cause> {
    let failed = events::latest(reads, object, volume.uid().as_deref(), "VolumeFailedDelete")?;
    let status = volume.status.clone().unwrap_or_default();
    let reported = failed.as_ref().map(events::sentence);
    let why = reported.or(status
        .message
        .filter(|message| !message.is_empty())
        .map(|message| quote::sentence(&message)));
    let why = why.unwrap_or_else(|| "its provisioner reports nothing.".to_owned());
    let since = status.last_phase_transition_time.map(|time| time.0);
    let spec = volume.spec.as_ref()?;
    let policy = spec.persistent_volume_reclaim_policy.as_deref()?;
    let undone = if policy == "Recycle" {
        "it is not recycled yet"
    } else {
        "its storage is not deleted yet"
    };
    let sentence = format!(
        "The volume's claim is deleted and the volume's policy is {policy}, but {undone}: {why}"
    );
    let evidence = Evidence::new(object.to_string(), "status.phase").since(since);
    Some(Cause::new(Code::StorageNotDeleted, sentence, evidence).run(
        object.describe(),
        "to see which driver the volume belongs to; then check that the provisioner of that driver runs",
    ))
}

fn replaced(
    reads: &LiveReads,
    object: &Object,
    volume: &PersistentVolume,
    other: &PersistentVolumeClaim,
    old: &ObjectReference,
) -> Cause {
    let name = format!(
        "{}/{}",
        other.namespace().unwrap_or_default(),
        other.name_any()
    );
    let uid = old.uid.as_deref().unwrap_or_default();
    let state = claim::state(other);
    let has = match state {
        "Bound" => "has another volume".to_owned(),
        "Pending" => "has another uid and is Pending".to_owned(),
        _ => format!("is {state}"),
    };
    let sentence = format!(
        "The volume belonged to the claim {name} with the uid {uid}, which is deleted. The present claim of that name {has}: Kubernetes \
         never binds a volume to a new claim of the same name."
    );
    let evidence = Evidence::new(object.to_string(), "spec.claimRef.uid");
    let specs = volume.spec.as_ref().zip(other.spec.as_ref());
    let lacking = specs.and_then(|(has, wants)| lacking(has, wants));
    if state != "Pending" || lacking.is_some() {
        let lacking = lacking.map_or_else(String::new, |how| format!(" This volume {how}."));
        let cause = Cause::new(
            Code::ClaimReplaced,
            format!("{sentence}{lacking}"),
            evidence,
        );
        return reuse::of_trash(reads, volume, &cause)
            .or_else(|| by_releaser(object, volume, &cause))
            .unwrap_or_else(|| in_doubt(cause, volume).run(
            object.describe(),
            "to decide what to do with the volume: its policy is Retain, so it is kept until an administrator decides",
        ));
    }
    let cause = Cause::new(Code::ClaimReplaced, sentence, evidence);
    let purpose = "if the new claim, which has no volume yet, is to get the data on this volume";
    reuse::free(reads, volume, cause, "/spec/claimRef/uid", purpose)
}

fn retained(
    reads: &LiveReads,
    object: &Object,
    volume: &PersistentVolume,
    old: &ObjectReference,
) -> Vec<Cause> {
    let name = format!(
        "{}/{}",
        old.namespace.as_deref().unwrap_or_default(),
        old.name.as_deref().unwrap_or_default()
    );
    let status = volume.status.as_ref();
    let since = status
        .and_then(|status| status.last_phase_transition_time.as_ref())
        .map(|time| time.0);
    let evidence =
        Evidence::new(object.to_string(), "spec.persistentVolumeReclaimPolicy").since(since);
    if let Some(kept) = trash::kept(volume) {
        let sentence = format!(
            "The volume belonged to the claim {name}, which is deleted, and is in the trash: its data is kept {kept}."
        );
        let evidence = Evidence::new(object.to_string(), "metadata.annotations").since(since);
        let cause = Cause::new(Code::InTrash, sentence, evidence);
        return vec![match trash::undelete(reads, volume) {
            Some(undelete) => {
                cause.run(undelete, "to restore the data in a new claim of that name")
            }
            None => cause.run(object.describe(), "to see its annotations and its claim"),
        }];
    }
    let kept = if reuse::doubt(volume).is_none() {
        ": its data is kept until an administrator decides"
    } else {
        ""
    };
    let sentence = format!(
        "The volume belonged to the claim {name}, which is deleted, and its policy is Retain{kept}."
    );
    let cause = Cause::new(Code::Retained, sentence, evidence);
    if let Some(cause) = by_releaser(object, volume, &cause) {
        let Some(all) = attachments::all(reads) else {
            return vec![cause];
        };
        let attached = attachments::of(&all, &object.name.name).next();
        let attached = attached.map(attachments::attached);
        return [cause].into_iter().chain(attached).collect();
    }
    let cause = if is_released(volume) {
        with_label(cause, next_is_known(volume))
    } else {
        cause
    };
    let purpose = "only if any next claim may see the data on the volume: the command makes the volume Available";
    vec![reuse::free(reads, volume, cause, "/spec/claimRef", purpose)]
}

/// The cause with the labels with which pv-releaser would take the volume.
fn with_label(cause: Cause, next_is_known: bool) -> Cause {
    let (labels, whose) = if next_is_known {
        (String::new(), "")
    } else {
        (
            format!(" and {RELEASE_SCOPE}=cluster"),
            ", for a claim of any namespace, because that of the deleted claim is not recorded",
        )
    };
    cause.adding(&format!(
        "With {RELEASER_LABEL}=<controller id>{labels} as labels, Volume Warden's pv-releaser would make the volume Available again{whose}."
    ))
}

/// The cause with what pv-releaser does with the volume; none if the volume has not its label, or
/// is not Released, so that pv-releaser does nothing.
fn by_releaser(object: &Object, volume: &PersistentVolume, cause: &Cause) -> Option<Cause> {
    let id = volume.labels().get(RELEASER_LABEL)?;
    if !is_released(volume) {
        return None;
    }
    let does = if next_is_known(volume) {
        "makes the volume Available again, once no node has it attached".to_owned()
    } else {
        // The StorageClass or the flag --release-scope may permit any namespace.
        format!(
            "makes the volume Available again only if a claim of any namespace may have it, as the label {RELEASE_SCOPE}=cluster \
             says: the namespace of the deleted claim is not recorded"
        )
    };
    let sentence = format!("Volume Warden's pv-releaser with the controller id {id} {does}.");
    let cause = cause.clone().adding(&sentence);
    Some(in_doubt(cause, volume).run(
        object.describe(),
        "to see the Events of pv-releaser, if the volume stays Released",
    ))
}

/// The cause with the reason why the data of the volume may be deleted already, if there is one.
fn in_doubt(cause: Cause, volume: &PersistentVolume) -> Cause {
    match reuse::doubt(volume) {
        Some(doubt) => cause.adding(&doubt),
        None => cause,
    }
}

fn is_released(volume: &PersistentVolume) -> bool {
    let status = volume.status.as_ref();
    status.and_then(|status| status.phase.as_deref()) == Some("Released")
}

/// Returns whether it is known which claims may get the volume: those of any namespace, by its
/// label, or those of the namespace that is recorded for its deleted claim.
fn next_is_known(volume: &PersistentVolume) -> bool {
    let spec = volume.spec.as_ref();
    let claim = spec.and_then(|spec| spec.claim_ref.as_ref());
    let record = volume.annotations().get(CLAIM_NAMESPACE);
    let record = record.and_then(|record| Record::parse(record));
    let is_recorded = claim.zip(record).is_some_and(|(claim, record)| {
        let uid = CompactText::from(claim.uid.as_deref().unwrap_or_default());
        record.is_of_claim(claim.namespace.as_deref().unwrap_or_default(), &uid)
    });
    is_recorded
        || volume
            .labels()
            .get(RELEASE_SCOPE)
            .is_some_and(|scope| scope == "cluster")
}
