//! What pvc-trash has recorded on a volume, and the action that patches it.

use super::reasons::TRASH_ERROR;
use crate::{
    cluster::{Action, Basis, Lane, OnRefusal},
    objects::{Claim, Volume, trash::TrashRecord, volume::Phase},
};
use json_patch::PatchOperation;

/// Returns the record on the volume; none without a record, or if it cannot be read.
pub fn recorded(volume: &Volume) -> Option<&TrashRecord> {
    volume.trash.as_deref()?.record.as_ref()
}

/// Returns the record of a volume that is in the trash; none for any other volume.
pub fn record_in_trash(volume: &Volume) -> Option<&TrashRecord> {
    let released = volume.phase == Phase::Released && volume.claimed_by().is_some();
    record_if_deleted(volume).filter(|_| released)
}

/// Returns the record of a volume that is kept for the claim of its record, if that claim is
/// deleted. The volume need not be in the trash yet: it is Bound until kube-controller-manager has
/// seen the deletion, and a volume that was reserved, or returned to the trash, is not Released at
/// once.
pub fn record_if_deleted(volume: &Volume) -> Option<&TrashRecord> {
    let record = recorded(volume)?;
    let phase = volume.phase;
    let holds = match volume.claimed_by() {
        Some(bound) => {
            let returned = record.returned_at.is_some() && phase == Phase::Other;
            let known = matches!(phase, Phase::Bound | Phase::Released);
            bound.uid == record.claim.uid && (known || returned)
        }
        None => record.reserved_at.is_some() && matches!(phase, Phase::Other | Phase::Released),
    };
    (holds && volume.retains() && !volume.deleting).then_some(record)
}

/// Returns whether the volume with this record is reserved for the claim, by its uid.
pub fn is_for(record: &TrashRecord, claim: &Claim) -> bool {
    let reserved_for = record.reserved_for.as_deref();
    reserved_for.is_some_and(|uid| claim.uid == uid)
}

/// Creates an action of pvc-trash that patches an object. If the API server refuses the patch, an
/// Event with the reason `ErrTrash` follows. An object that does not exist is not patched, so no
/// Event says that it was.
pub fn action(
    name: &'static str,
    lane: Lane,
    operations: Vec<PatchOperation>,
    basis: Basis,
) -> Action {
    Action::patch(name, lane, operations, basis, OnRefusal::new(TRASH_ERROR)).of_existing()
}
