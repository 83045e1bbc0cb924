//! Finds the data of a deleted claim, for a pod whose claim does not exist.

use crate::{
    objects::{is_possible_name, volume::Phase},
    why::{
        LiveReads, Lookup, Object, Selection,
        explain::{quote, trash},
        read::PersistentVolume,
    },
};
use kube::ResourceExt;

/// The end of the sentence about a claim that a user has to create, and the next command with its
/// purpose. A claim of the same name may have been deleted whose data still exists: a new claim
/// would not get it, and the data in the trash would be purged at the end of its window.
pub(super) fn steps(reads: &LiveReads, namespace: &str, claim: &str) -> (String, String, String) {
    let name = quote::name(claim);
    let who = "neither Kubernetes nor Volume Warden creates it for the pod";
    let create =
        format!("create the claim {name}, or recreate the pod with the name of another claim");
    let former = if is_possible_name(claim) {
        let volumes = reads.list::<PersistentVolume>("", Selection::default());
        volumes.map(|volumes| with_data_of(&volumes, namespace, claim).cloned())
    } else {
        Lookup::Found(None)
    };
    let Some(former) = former.found() else {
        return (
            who.to_owned(),
            format!("volume-warden undelete pvc {claim} -n {namespace}"),
            format!(
                "if a claim of that name was deleted: it restores the claim if the trash has its data, and is refused otherwise; then {create}"
            ),
        );
    };
    let Some(volume) = former else {
        return (
            who.to_owned(),
            format!("kubectl get pvc -n {namespace}"),
            format!("to list the claims; then {create}"),
        );
    };
    let show = Object::volume(&volume.name_any()).describe();
    let Some(kept) = trash::kept(&volume) else {
        return (
            format!("{who}. A claim of that name was deleted, and its volume {} is kept", volume.name_any()),
            show,
            "to decide whether a new claim is to get the data on that volume, before a claim of that name is created".to_owned(),
        );
    };
    let state = format!("{who}. A claim of that name was deleted, and its data is kept {kept}");
    match trash::undelete(reads, &volume) {
        Some(undelete) => (
            state,
            undelete,
            "to restore the deleted claim with its data; a new claim of that name would be empty"
                .to_owned(),
        ),
        None => (
            state,
            show,
            "to see its annotations before a claim of that name is created".to_owned(),
        ),
    }
}

/// The volume with the data of the claim of this name that was deleted last, as far as that is
/// recorded.
fn with_data_of<'a>(
    volumes: &'a [PersistentVolume],
    namespace: &str,
    claim: &str,
) -> Option<&'a PersistentVolume> {
    let former = volumes.iter().filter(|volume| {
        let trimmed = &volume.trimmed;
        let of_claim = trimmed.claim_ref.as_ref().is_some_and(|claim_ref| {
            (&*claim_ref.name.namespace, &*claim_ref.name.name) == (namespace, claim)
        });
        of_claim && trimmed.phase == Phase::Released && trimmed.retains() && !trimmed.deleting
    });
    former.max_by_key(|volume| {
        let record = volume.trimmed.trash.as_ref();
        record.and_then(|trash| trash.record.as_ref()?.deleted_at)
    })
}
