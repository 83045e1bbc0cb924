//! Writes the planned removals and reports progress.

use super::{
    Drain, NAME, ObjectCleanup, Precondition,
    object_cleanup::object,
    read::MAX_AGE,
    reasons::{CLEANED_UP, FAILED_CLEANUP},
};
use crate::{
    cluster::{
        Action, Applied, Basis, DEFAULT_CALL_TIMEOUT, Lane, LiveGet, OnRefusal, Proof, Target,
        for_log,
    },
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
    /// Writes each cleanup once, reports a line for each, and returns the outcomes. `lists` is for
    /// how long a purge may rest on the lists of the plan.
    pub(super) async fn write(
        &self,
        cleanups: Vec<ObjectCleanup>,
        lists: Proof,
        print_line: &mut impl FnMut(&str),
    ) -> Vec<(ObjectCleanup, Applied)> {
        let total = cleanups.len();
        let writes = stream::iter(cleanups).map(|cleanup| self.perform(cleanup, lists));
        let mut writes = pin!(writes.buffer_unordered(self.in_flight));
        let mut progress = interval_at(Instant::now() + REPORT_INTERVAL, REPORT_INTERVAL);
        let mut written = Vec::with_capacity(total);
        loop {
            tokio::select! {
                next = writes.next() => match next {
                    None => return written,
                    Some((cleanup, applied)) => {
                        if let Some(line) = line(&cleanup, &applied) {
                            print_line(&line);
                        }
                        written.push((cleanup, applied));
                    }
                },
                _ = progress.tick() => print_line(&format!("{} of {total} done", written.len())),
            }
        }
    }

    async fn perform(&self, cleanup: ObjectCleanup, lists: Proof) -> (ObjectCleanup, Applied) {
        let applied = self.attempt(&cleanup, lists).await;
        (cleanup, applied.unwrap_or_else(|other| other))
    }

    /// Writes the cleanup. The copy of a volume is deleted for a purge only while the lists support
    /// it. After that, the purge is not given up for their age, because the volume would stay
    /// without a copy.
    ///
    /// # Errors
    /// The outcome of the step after which no further one is taken.
    async fn attempt(&self, cleanup: &ObjectCleanup, lists: Proof) -> Result<Applied, Applied> {
        if cleanup.kind == Kind::TrashList {
            let live = LiveGet::new(self.apply.metrics.clone(), &self.client);
            let deleted = trash_list::delete(&live, &self.apply, NAME, &cleanup.target()).await;
            return deleted.map_err(Applied::Failed);
        }
        let is_late = || cleanup.is_purge() && Basis::Proof(lists).until() < Some(Instant::now());
        if is_late() {
            return Err(Applied::Stale);
        }
        let mut action = self.decide(cleanup).await?;
        if cleanup.deletes_copy {
            let target = cleanup.target();
            ended(self.apply.check(NAME, &target, &action, CLEANED_UP).await)?;
            if is_late() {
                return Err(Applied::Stale);
            }
            ended(self.delete_copy(cleanup).await)?;
            // The deletion of the copy may have waited for other writes.
            action = self.decide(cleanup).await?;
        }
        let mut applied = Applied::Done;
        if !cleanup.operations.is_empty() {
            let target = cleanup.target();
            applied = self.apply.perform(NAME, &target, action, CLEANED_UP).await;
        }
        if cleanup.applied_status {
            ended(applied)?;
            applied = self.remove_status(cleanup).await;
        }
        Ok(applied)
    }

    /// Returns the patch of the cleanup, after a live read if it has a condition.
    ///
    /// # Errors
    /// [`Applied::Stale`] if the condition does not hold: the object is skipped then, and the next
    /// round reads everything again.
    async fn decide(&self, cleanup: &ObjectCleanup) -> Result<Action, Applied> {
        let basis = match &cleanup.precondition {
            None => Basis::Object,
            Some(precondition) => {
                let proof = self.holds(precondition).await.map_err(Applied::Failed)?;
                Basis::Proof(proof.ok_or(Applied::Stale)?)
            }
        };
        Ok(remove_parts(cleanup.operations.clone(), basis))
    }

    /// Deletes the copy of a volume object before the volume is changed. If the copy stayed when
    /// the volume is deleted, the volume would count as removed by force, which the copy can undo.
    /// The caller has checked that the API server would accept the change: otherwise the volume
    /// stays as it is, and only the copy can create it again.
    async fn delete_copy(&self, cleanup: &ObjectCleanup) -> Applied {
        let copy = name_of(&self.system_namespace, &cleanup.uid);
        let live = LiveGet::new(self.apply.metrics.clone(), &self.client);
        let deleted = pvc_trash::delete_copy(&live, &self.apply, NAME, &copy).await;
        deleted.unwrap_or_else(Applied::Failed)
    }

    /// Removes the condition Unused that Volume Warden has applied to the status of a claim. Only
    /// the uid is tested, because the removal of other parts has changed the `resourceVersion`.
    async fn remove_status(&self, cleanup: &ObjectCleanup) -> Applied {
        let target = Target::new(cleanup.kind, &cleanup.name, &cleanup.uid);
        let action = Action::apply_status(json!({}), Basis::Object)
            .on_refusal(AGAIN)
            .of_existing();
        self.apply.perform(NAME, &target, action, CLEANED_UP).await
    }

    /// Reads live the claim that the condition names. Returns a proof if the condition holds.
    async fn holds(&self, precondition: &Precondition) -> kube::Result<Option<Proof>> {
        let (Precondition::Exists(claim)
        | Precondition::NotExpiring(claim)
        | Precondition::Deleted(claim)) = precondition;
        let live = LiveGet::<Claim>::new(self.apply.metrics.clone(), &self.client);
        let found = live.read(&claim.name, DEFAULT_CALL_TIMEOUT).await?;
        let holds = precondition.is_met_by(found.value.as_ref());
        Ok(holds.then(|| found.strict_proof(MAX_AGE)))
    }
}

impl Precondition {
    /// Returns whether the condition holds. `found` is the claim that a live read found under the
    /// name in the condition.
    pub(super) fn is_met_by(&self, found: Option<&Claim>) -> bool {
        let same = |claim: &ClaimRef| found.filter(|found| found.uid == claim.uid);
        match self {
            Self::Exists(claim) => same(claim).is_some_and(|it| !it.deleting),
            Self::NotExpiring(claim) => {
                same(claim).is_some_and(|it| !it.deleting && !it.rare.is_announced())
            }
            Self::Deleted(claim) => same(claim).is_none(),
        }
    }
}

/// The removal of what Volume Warden wrote. From an object that does not exist, nothing is removed.
fn remove_parts(operations: Vec<PatchOperation>, basis: Basis) -> Action {
    Action::patch("CleanUp", Lane::Bulk, operations, basis, AGAIN).of_existing()
}

/// Succeeds if the next step may follow a step with this outcome.
fn ended(applied: Applied) -> Result<(), Applied> {
    match applied {
        Applied::Done | Applied::Withheld => Ok(()),
        other => Err(other),
    }
}

fn line(cleanup: &ObjectCleanup, applied: &Applied) -> Option<String> {
    let object = object(cleanup.kind, &cleanup.name);
    let what = cleanup.what.join(", ");
    match applied {
        Applied::Done => Some(format!("{object}: removed {what}")),
        Applied::Withheld => Some(format!("{object}: would remove {what}")),
        Applied::Failed(error) => Some(format!(
            "{object}: could not remove {what}: {}",
            for_log(error)
        )),
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
    fn a_cleanup_is_bulk_and_repeated_by_the_command() {
        let (_, lane, on_refusal) = remove_parts(Vec::new(), Basis::Object).parts();
        assert_eq!(lane, Lane::Bulk);
        assert_eq!(on_refusal.next, "so run volume-warden drain again");
    }
}
