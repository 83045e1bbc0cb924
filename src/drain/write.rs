//! Writes the planned removals and reports progress.

use super::{
    Condition, Drain, NAME, Piece,
    piece::object,
    read::MAX_AGE,
    reasons::{CLEANED_UP, FAILED_CLEANUP},
};
use crate::{
    cluster::{Action, Applied, Basis, Lane, LiveGet, OnRefusal, Proof, Target, UNHURRIED},
    components::{pvc_trash, trash_list},
    objects::{Claim, Kind, saved_volume::name_of, volume::ClaimRef},
};
use futures::{StreamExt as _, stream};
use json_patch::PatchOperation;
use serde_json::json;
use std::{pin::pin, time::Duration};
use tokio::time::{Instant, interval_at};

/// The Event about a refused removal. No reconciler remains that could retry it.
const AGAIN: OnRefusal = OnRefusal {
    next: "so run volume-warden drain again",
    ..OnRefusal::new(FAILED_CLEANUP)
};
/// Interval between progress lines.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

impl Drain {
    /// Writes each piece once, reports a line for each, and returns the outcomes. `lists` is for how
    /// long a purge may rest on the lists of the plan.
    pub(super) async fn write(
        &self,
        pieces: Vec<Piece>,
        lists: Proof,
        say: &mut impl FnMut(&str),
    ) -> Vec<(Piece, Applied)> {
        let total = pieces.len();
        let writes = stream::iter(pieces).map(|piece| self.perform(piece, lists));
        let mut writes = pin!(writes.buffer_unordered(self.in_flight));
        let mut progress = interval_at(Instant::now() + REPORT_INTERVAL, REPORT_INTERVAL);
        let mut written = Vec::with_capacity(total);
        loop {
            tokio::select! {
                next = writes.next() => match next {
                    None => return written,
                    Some((piece, applied)) => {
                        if let Some(line) = line(&piece, &applied) {
                            say(&line);
                        }
                        written.push((piece, applied));
                    }
                },
                _ = progress.tick() => say(&format!("{} of {total} done", written.len())),
            }
        }
    }

    async fn perform(&self, piece: Piece, lists: Proof) -> (Piece, Applied) {
        let applied = self.attempt(&piece, lists).await;
        (piece, applied.unwrap_or_else(|other| other))
    }

    /// Writes the piece. The copy of a volume is deleted for a purge only while the lists support it.
    /// After that, the purge is not given up for their age, because the volume would stay without a
    /// copy.
    ///
    /// # Errors
    /// The outcome of the step after which no further one is taken.
    async fn attempt(&self, piece: &Piece, lists: Proof) -> Result<Applied, Applied> {
        if piece.kind == Kind::TrashList {
            let live = LiveGet::new(self.apply.metrics.clone(), &self.client);
            let deleted = trash_list::delete(&live, &self.apply, NAME, &piece.target()).await;
            return deleted.map_err(Applied::Failed);
        }
        let is_late = || piece.is_purge() && Basis::Proof(lists).until() < Some(Instant::now());
        if is_late() {
            return Err(Applied::Stale);
        }
        let mut action = self.decide(piece).await?;
        if piece.forgets {
            let target = piece.target();
            ended(self.apply.check(NAME, &target, &action, CLEANED_UP).await)?;
            if is_late() {
                return Err(Applied::Stale);
            }
            ended(self.forget(piece).await)?;
            // The deletion of the copy may have waited for other writes.
            action = self.decide(piece).await?;
        }
        let mut applied = Applied::Done;
        if !piece.operations.is_empty() {
            let target = piece.target();
            applied = self.apply.perform(NAME, &target, action, CLEANED_UP).await;
        }
        if piece.applied_status {
            ended(applied)?;
            applied = self.remove_status(piece).await;
        }
        Ok(applied)
    }

    /// Returns the patch of the piece, after a live read if it has a condition.
    ///
    /// # Errors
    /// [`Applied::Stale`] if the condition does not hold: the object is skipped then, and the next
    /// round reads everything again.
    async fn decide(&self, piece: &Piece) -> Result<Action, Applied> {
        let basis = match &piece.condition {
            None => Basis::Object,
            Some(condition) => {
                let proof = self.holds(condition).await.map_err(Applied::Failed)?;
                Basis::Proof(proof.ok_or(Applied::Stale)?)
            }
        };
        Ok(remove_parts(piece.operations.clone(), basis))
    }

    /// Deletes the copy of a volume object before the volume is changed. If the copy stayed when
    /// the volume is deleted, the volume would count as removed by force, which the copy can undo.
    /// The caller has checked that the API server would accept the change: otherwise the volume stays
    /// as it is, and only the copy can create it again.
    async fn forget(&self, piece: &Piece) -> Applied {
        let copy = name_of(&self.system_namespace, &piece.uid);
        let live = LiveGet::new(self.apply.metrics.clone(), &self.client);
        let deleted = pvc_trash::forget(&live, &self.apply, NAME, &copy).await;
        deleted.unwrap_or_else(Applied::Failed)
    }

    /// Removes the condition Unused that Volume Warden has applied to the status of a claim. Only
    /// the uid is tested, because the removal of other parts has changed the `resourceVersion`.
    async fn remove_status(&self, piece: &Piece) -> Applied {
        let target = Target::new(piece.kind, &piece.name, &piece.uid);
        let action = Action::apply_status(json!({}), Basis::Object)
            .on_refusal(AGAIN)
            .of_existing();
        self.apply.perform(NAME, &target, action, CLEANED_UP).await
    }

    /// Reads live the claim that the condition names. Returns a proof if the condition holds.
    async fn holds(&self, condition: &Condition) -> kube::Result<Option<Proof>> {
        let (Condition::Living(claim) | Condition::Staying(claim) | Condition::Gone(claim)) =
            condition;
        let live = LiveGet::<Claim>::new(self.apply.metrics.clone(), &self.client);
        let found = live.read(&claim.name, UNHURRIED).await?;
        let holds = condition.is_met_by(found.value.as_ref());
        Ok(holds.then(|| found.strict_proof(MAX_AGE)))
    }
}

impl Condition {
    /// Returns whether the condition holds. `found` is the claim that a live read found under the
    /// name in the condition.
    pub(super) fn is_met_by(&self, found: Option<&Claim>) -> bool {
        let same = |claim: &ClaimRef| found.filter(|found| found.uid == claim.uid);
        match self {
            Self::Living(claim) => same(claim).is_some_and(|it| !it.deleting),
            Self::Staying(claim) => {
                same(claim).is_some_and(|it| !it.deleting && !it.rare.is_announced())
            }
            Self::Gone(claim) => same(claim).is_none(),
        }
    }
}

/// The removal of what Volume Warden wrote. From an object that does not exist, nothing is removed.
fn remove_parts(operations: Vec<PatchOperation>, basis: Basis) -> Action {
    Action::patch("TakeBack", Lane::Bulk, operations, basis, AGAIN).of_existing()
}

/// Succeeds if the next step may follow a step with this outcome.
fn ended(applied: Applied) -> Result<(), Applied> {
    match applied {
        Applied::Done | Applied::Withheld => Ok(()),
        other => Err(other),
    }
}

fn line(piece: &Piece, applied: &Applied) -> Option<String> {
    let object = object(piece.kind, &piece.name);
    let what = piece.what.join(", ");
    match applied {
        Applied::Done => Some(format!("{object}: removed {what}")),
        Applied::Withheld => Some(format!("{object}: would remove {what}")),
        Applied::Failed(error) => Some(format!("{object}: could not remove {what}: {error}")),
        Applied::Stale | Applied::NotLeading => None,
    }
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod order_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_back_is_bulk_and_asked_for_again_by_hand() {
        let (_, lane, on_refusal) = remove_parts(Vec::new(), Basis::Object).parts();
        assert_eq!(lane, Lane::Bulk);
        assert_eq!(on_refusal.next, "so run volume-warden drain again");
    }
}
