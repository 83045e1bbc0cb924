//! The only writer. A rule returns an action as data; the writer turns it into a guarded patch and
//! returns the outcome.

use super::action::Action;
use super::action::Mutation;
use super::action::Target;
use super::applied::Applied;
use super::applied::judge;
use super::events::Announcement;
use super::events::Events;
use super::events::Regarding;
use super::lanes::Lane;
use super::lanes::Lanes;
use crate::cluster::api::within;
use crate::cluster::leader::Leadership;
use crate::telemetry::Metrics;
use json_patch::Patch;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Client,
    api::{DynamicObject, PatchParams},
    core::Status,
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};

/// Shorter than the time between the last write of this replica as leader and the first of another
/// one, see `lease`.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(4);

/// The only writer.
pub struct Apply {
    pub(crate) client: Client,
    events: Events,
    pub(crate) leadership: Leadership,
    pub(crate) lanes: Lanes,
    pub(crate) dry_run: bool,
    pub(crate) metrics: Arc<Metrics>,
}

/// Where and until when a write waits for its permit.
pub(crate) struct Turn<'a> {
    pub(crate) lane: Lane,
    pub(crate) namespace: &'a Arc<str>,
    /// The write must not be sent afterwards.
    pub(crate) deadline: Option<Instant>,
}

impl Turn<'_> {
    fn is_too_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() > deadline)
    }
}

impl Apply {
    /// A writer with at most `max_in_flight` bulk writes under way and no more in each of the
    /// other lanes, see [`Lanes::new`]. It writes nothing at all where `dry_run`.
    pub fn new(
        client: Client,
        leadership: Leadership,
        max_in_flight: usize,
        dry_run: bool,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            events: Events::new(client.clone()),
            client,
            leadership,
            lanes: Lanes::new(max_in_flight),
            dry_run,
            metrics,
        }
    }

    /// Carries out an action and returns the outcome. `reason` is why the rule requests it.
    pub async fn perform(
        &self,
        component: &'static str,
        target: &Target<'_>,
        action: Action,
        reason: &'static str,
    ) -> Applied {
        let applied = self.write(target, &action).await;
        self.metrics
            .work
            .acted(component, action.name, reason, applied.label());
        self.log(component, target, action.name, reason, &applied);
        if let Applied::Failed(error) = &applied {
            self.report(target, &action, error).await;
        }
        applied
    }

    /// Logs one line for each action: component, object, action, reason and outcome.
    pub(crate) fn log(
        &self,
        component: &'static str,
        target: &Target<'_>,
        action: &'static str,
        reason: &'static str,
        applied: &Applied,
    ) {
        let (kind, object, outcome) = (target.kind.plural(), target.name, applied.label());
        let said = if self.dry_run { "would act" } else { "action" };
        match applied {
            Applied::Failed(error) => {
                tracing::warn!(component, kind, %object, action, reason, outcome, %error, "{said}");
            }
            _ => tracing::info!(component, kind, %object, action, reason, outcome, "{said}"),
        }
    }

    async fn write(&self, target: &Target<'_>, action: &Action) -> Applied {
        if !target.guards(action) {
            tracing::error!(object = %target.name, action = action.name, "not sent: the action has no resourceVersion to test");
            return Applied::Stale;
        }
        let write = async { judge(within(CALL_LIMIT, self.call(target, action)).await) };
        let turn = Turn {
            lane: action.lane,
            namespace: &target.name.namespace,
            deadline: target.deadline(action),
        };
        self.in_turn(turn, write).await
    }

    /// Writes in turn, unless this is a dry run or another replica leads. Waits no longer than
    /// until the deadline: what is too old by then has to be decided again, and that need not wait
    /// for the writes in front of it.
    pub(crate) async fn in_turn(
        &self,
        turn: Turn<'_>,
        write: impl Future<Output = Applied>,
    ) -> Applied {
        if self.dry_run {
            return Applied::Withheld;
        }
        let permit = self.lanes.permit(turn.lane, turn.namespace);
        let permit = match turn.deadline {
            Some(deadline) => timeout_at(deadline, permit).await.ok(),
            None => Some(permit.await),
        };
        // Both are checked after waiting for the permit, as late as possible.
        if permit.is_none() || turn.is_too_late() {
            return Applied::Stale;
        }
        if !self.leadership.holds() {
            return Applied::NotLeading;
        }
        write.await
    }

    async fn call(&self, target: &Target<'_>, action: &Action) -> kube::Result<()> {
        let (api, name) = (self.api(target), &target.name.name);
        if action.mutation == Mutation::Delete {
            return api.delete(name, &target.preconditions()).await.map(drop);
        }
        let patch = kube::api::Patch::<()>::Json(Patch(target.operations(action)));
        let parameters = PatchParams::default();
        api.patch_metadata(name, &parameters, &patch)
            .await
            .map(drop)
    }

    fn api(&self, target: &Target<'_>) -> Api<DynamicObject> {
        let resource = target.kind.api_resource();
        if target.name.namespace.is_empty() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), &target.name.namespace, &resource)
        }
    }

    /// Reports a refusal to users: missing rights, a policy, an admission webhook. For some
    /// actions, also an outage.
    async fn report(&self, target: &Target<'_>, action: &Action, error: &kube::Error) {
        let kube::Error::Api(status) = error else {
            return;
        };
        let outage = status.code >= 500 && action.on_refusal.outages;
        if (400..429).contains(&status.code) || outage {
            let regarding = target.reference();
            self.events
                .count(&regarding, &refusal(action, status))
                .await;
        }
    }

    /// Publishes an Event about an object if this replica leads and this is not a dry run. Does so
    /// in a task, because the caller must not wait for an API server that accepts writes but no
    /// Events. Calls `otherwise` if no Event was published.
    pub fn announce(
        self: &Arc<Self>,
        regarding: Regarding,
        announcement: Announcement,
        otherwise: impl FnOnce() + Send + 'static,
    ) {
        let Regarding { kind, name, uid } = &regarding;
        let (reason, note) = (announcement.reason, &announcement.note);
        tracing::info!(kind = kind.plural(), object = %name, reason, note, "event published");
        let regarded = Target::new(*kind, name, uid).reference();
        self.publish(regarded, announcement, otherwise);
    }

    /// The same about an object of any kind, without a line in the log.
    pub fn publish(
        self: &Arc<Self>,
        regarded: ObjectReference,
        announcement: Announcement,
        otherwise: impl FnOnce() + Send + 'static,
    ) {
        let apply = self.clone();
        tokio::spawn(async move {
            if apply.dry_run {
                return;
            }
            let publish = apply.events.publish(&regarded, &announcement);
            let published = apply.leadership.holds() && publish.await;
            if !published {
                otherwise();
            }
        });
    }
}

fn refusal(action: &Action, status: &Status) -> Announcement {
    Announcement {
        reason: action.on_refusal.reason,
        action: action.name,
        warning: true,
        note: format!(
            "The API server {} it, {}: {}",
            if status.code < 500 {
                "refused"
            } else {
                "failed at"
            },
            action.on_refusal.next,
            status.message
        ),
        related: None,
    }
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
