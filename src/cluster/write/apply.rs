//! Carries out the actions of the rules. A rule returns an action as data; the writer sends it as
//! a request that tests the uid and, if it is known, the `resourceVersion` of the object, and
//! returns the outcome.

use super::action::Action;
use super::action::Mutation;
use super::applied::Applied;
use super::events::Events;
use super::lanes::Lane;
use super::lanes::Lanes;
use super::send::send;
use super::target::Target;
use crate::cluster::api::{for_log, within};
use crate::cluster::leader::{LEASE_DURATION, Leadership, RENEW_DEADLINE};
use crate::cluster::watch::Excluded;
use crate::objects::{FIELD_MANAGER, Kind};
use crate::telemetry::Metrics;
use json_patch::Patch;
use kube::{
    Client, Resource as _,
    api::{DynamicObject, PatchParams, Request},
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};

/// Time limit of one write.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(4);

// A write ends before another replica may lead: that acquires the Lease after its duration, counted
// from the renewal after which this replica sends writes until the renew deadline.
const _: () =
    assert!(RENEW_DEADLINE.as_secs() + WRITE_TIMEOUT.as_secs() < LEASE_DURATION.as_secs());

/// The only writer of actions to the API server.
pub struct Apply {
    pub(crate) client: Client,
    pub(super) events: Arc<Events>,
    pub(crate) leadership: Leadership,
    pub(crate) lanes: Lanes,
    pub(crate) dry_run: bool,
    pub(crate) excluded: Excluded,
    pub(crate) metrics: Arc<Metrics>,
}

/// How a write waits for its permit, and until when.
pub(crate) struct Turn<'a> {
    pub(crate) lane: Lane,
    pub(crate) namespace: &'a Arc<str>,
    /// The time after which the write must not be sent.
    pub(crate) deadline: Option<Instant>,
    /// Returns whether the write may still be sent, by what the watches show now.
    pub(crate) still_holds: StillHolds<'a>,
}

/// Returns whether a decision still holds, by what the watches show now. It takes no time.
pub(crate) type StillHolds<'a> = &'a (dyn Fn() -> bool + Sync);

/// For a decision that the watches cannot contradict, or whose write tests what they may show.
pub(crate) const ALWAYS: StillHolds<'static> = &|| true;

impl Turn<'_> {
    fn is_too_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() > deadline)
    }
}

impl Apply {
    /// Creates a writer with at most `max_in_flight` concurrent bulk writes, and at most as many in
    /// each other lane; see [`Lanes::new`]. With `dry_run`, it writes nothing.
    pub fn new(
        client: Client,
        leadership: Leadership,
        max_in_flight: usize,
        dry_run: bool,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            events: Arc::new(Events::new(client.clone())),
            client,
            leadership,
            lanes: Lanes::new(max_in_flight),
            dry_run,
            excluded: Excluded::default(),
            metrics,
        }
    }

    /// Makes the writer change objects of these namespaces, except ConfigMaps, only by removals:
    /// of the finalizers, owner references, markers and conditions that Volume Warden adds.
    #[must_use]
    pub fn excluding(self, excluded: Excluded) -> Self {
        Self { excluded, ..self }
    }

    /// Carries out an action and returns the outcome. `reason` is why the rule requests the action.
    pub async fn perform(
        &self,
        component: &'static str,
        target: &Target<'_>,
        action: Action,
        reason: &'static str,
    ) -> Applied {
        self.perform_if(component, target, action, reason, ALWAYS)
            .await
    }

    /// Carries out an action unless `still_holds` returns false once it is the action's turn: then
    /// the outcome is [`Applied::Stale`]. For an action that cannot be reversed, and rests on other
    /// objects than its target: thousands of writes may wait before it, and meanwhile a watch may
    /// show, for example, a new pod that uses the claim.
    pub(crate) async fn perform_if(
        &self,
        component: &'static str,
        target: &Target<'_>,
        action: Action,
        reason: &'static str,
        still_holds: StillHolds<'_>,
    ) -> Applied {
        let Some(action) = self.within_exclusion(target, action) else {
            tracing::debug!(component, object = %target.name, reason, "no action: the namespace \
                has opted out");
            return Applied::Withheld;
        };
        let applied = self.write(target, &action, still_holds).await;
        self.record(component, target, action.name, reason, &applied);
        if let Applied::Failed(error) = &applied {
            self.report(target, &action, error);
        }
        applied
    }

    /// Returns the part of the action that may be written: in a namespace that has opted out, only
    /// what removes something that Volume Warden has added.
    fn within_exclusion(&self, target: &Target<'_>, action: Action) -> Option<Action> {
        if self.excludes(target.kind, &target.name.namespace) {
            action.removal()
        } else {
            Some(action)
        }
    }

    /// Returns whether the namespace has opted out, so that only removals are written in it.
    /// ConfigMaps are exempt, because all that are written are Volume Warden's own: its list of
    /// deleted claims must be deleted in a namespace that has opted out.
    pub fn excludes(&self, kind: Kind, namespace: &str) -> bool {
        kind != Kind::ConfigMap && self.excluded.contains(namespace)
    }

    /// Carries out an action while an admission review waits, until this instant at most. It needs
    /// neither leadership, because every replica answers reviews, nor a permit, because no review
    /// waits for background writes. It publishes no Event about a refusal.
    pub async fn perform_in_review(
        &self,
        component: &'static str,
        target: &Target<'_>,
        action: Action,
        reason: &'static str,
        until: Instant,
    ) -> Applied {
        let left = until
            .saturating_duration_since(Instant::now())
            .min(WRITE_TIMEOUT);
        let applied = if self.dry_run {
            Applied::Withheld
        } else if target.guards(&action) {
            action.outcome(within(left, self.call(target, &action)).await)
        } else {
            Applied::Stale
        };
        self.record(component, target, action.name, reason, &applied);
        applied
    }

    /// Counts an action, and logs one line with its object, reason and outcome.
    pub(super) fn record(
        &self,
        component: &'static str,
        target: &Target<'_>,
        action: &'static str,
        reason: &'static str,
        applied: &Applied,
    ) {
        let (kind, object, outcome) = (target.kind.plural(), target.name, applied.label());
        self.metrics.work.acted(component, action, reason, outcome);
        let message = if self.dry_run { "would act" } else { "action" };
        match applied {
            Applied::Failed(error) => {
                // That of a webhook that cannot be called contains its address.
                let error = for_log(error);
                tracing::warn!(component, kind, %object, action, reason, outcome, %error, "{message}");
            }
            _ => tracing::info!(component, kind, %object, action, reason, outcome, "{message}"),
        }
    }

    async fn write(
        &self,
        target: &Target<'_>,
        action: &Action,
        still_holds: StillHolds<'_>,
    ) -> Applied {
        if !target.guards(action) {
            tracing::error!(object = %target.name, action = action.name, "bug: the action is not \
                sent, because it must test the resourceVersion of the object, which is not known");
            return Applied::Stale;
        }
        let write =
            || async { action.outcome(within(WRITE_TIMEOUT, self.call(target, action)).await) };
        let turn = Turn {
            lane: action.lane,
            namespace: &target.name.namespace,
            deadline: target.deadline(action),
            still_holds,
        };
        self.in_turn(turn, write).await
    }

    /// Waits for a permit, and then calls `write`, unless this is a dry run, this replica does not
    /// lead, or the decision does not hold any more. It waits until the deadline at most: then the
    /// reconciler must decide again, which does not have to wait for earlier writes.
    ///
    /// `write` creates the call only once the permit is there: a call to the API server uses
    /// several kilobytes, and thousands of writes may wait.
    pub(crate) async fn in_turn<F: Future<Output = Applied> + Send>(
        &self,
        turn: Turn<'_>,
        write: impl FnOnce() -> F,
    ) -> Applied {
        if self.dry_run {
            return Applied::Withheld;
        }
        let permit = self.lanes.permit(turn.lane, turn.namespace);
        let permit = match turn.deadline {
            Some(deadline) => timeout_at(deadline, permit).await.ok(),
            None => Some(permit.await),
        };
        // The deadline, the decision and the leadership are checked after waiting for the permit,
        // as late as possible.
        if permit.is_none() || turn.is_too_late() || !(turn.still_holds)() {
            return Applied::Stale;
        }
        if !self.leadership.holds() {
            return Applied::NotLeading;
        }
        Box::pin(write()).await
    }

    async fn call(&self, target: &Target<'_>, action: &Action) -> kube::Result<()> {
        let name = &target.name.name;
        let request = match &action.mutation {
            Mutation::Delete => requests(target).delete(name, &target.preconditions()),
            Mutation::ApplyStatus(status) => {
                let parameters = PatchParams::apply(FIELD_MANAGER).force();
                let patch = kube::api::Patch::Apply(target.with_status(status));
                requests(target).patch_subresource("status", name, &parameters, &patch)
            }
            _ => return self.patch(target, action, false).await,
        };
        send(&self.client, request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Sends the patch operations of the action.
    pub(super) async fn patch(
        &self,
        target: &Target<'_>,
        action: &Action,
        dry_run: bool,
    ) -> kube::Result<()> {
        let patch = kube::api::Patch::<()>::Json(Patch(target.operations(action)));
        let parameters = PatchParams {
            dry_run,
            ..PatchParams::default()
        };
        let request = requests(target).patch_metadata(&target.name.name, &parameters, &patch);
        send(&self.client, request.map_err(kube::Error::BuildRequest)?).await
    }
}

/// The requests for objects of the kind and namespace of the target.
fn requests(target: &Target<'_>) -> Request {
    let namespace = Some(&*target.name.namespace).filter(|namespace| !namespace.is_empty());
    Request::new(DynamicObject::url_path(
        &target.kind.api_resource(),
        namespace,
    ))
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
