//! Asks the API server whether it would accept a patch.

use super::action::Action;
use super::applied::Applied;
use super::apply::{ALWAYS, Apply, Turn, WRITE_TIMEOUT};
use super::target::Target;
use crate::cluster::api::within;

impl Apply {
    /// Sends the patch of the action with `dryRun=All`: the API server runs validation and
    /// admission, policies included, and stores nothing. Returns `Done` if it accepts the
    /// patch, and `Stale` if the object does not exist. A refusal is logged, counted and reported
    /// as that of [`Self::perform`] is.
    pub async fn check(
        &self,
        component: &'static str,
        target: &Target<'_>,
        action: &Action,
        reason: &'static str,
    ) -> Applied {
        let action = &action.clone().of_existing();
        let check = || async {
            action.outcome(within(WRITE_TIMEOUT, self.patch(target, action, true)).await)
        };
        let turn = Turn {
            lane: action.lane,
            namespace: &target.name.namespace,
            deadline: target.deadline(action),
            still_holds: ALWAYS,
        };
        let applied = self.in_turn(turn, check).await;
        if let Applied::Failed(error) = &applied {
            self.record(component, target, action.name, reason, &applied);
            self.report(target, action, error);
        }
        applied
    }
}
