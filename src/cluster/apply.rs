//! The only writer. What a rule wants is data; this turns it into a guarded patch and says what became of it.

use super::{
    action::{Action, Target},
    applied::{Applied, judge},
    client::within,
    create,
    events::{Announcement, Events, Regarding},
    leadership::Leadership,
};
use crate::telemetry::Metrics;
use json_patch::Patch;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Client,
    api::{DynamicObject, PatchParams},
    core::Status,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// Shorter than the time between our last write as a leader and another replica's first, see `lease`.
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(4);

/// See the module.
pub struct Apply {
    pub(super) client: Client,
    events: Events,
    pub(super) leadership: Leadership,
    in_flight: Semaphore,
    pub(super) creations: Semaphore,
    pub(super) dry_run: bool,
    pub(super) metrics: Arc<Metrics>,
}

impl Apply {
    /// A writer with at most `max_in_flight` writes under way, that writes nothing at all where `dry_run`.
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
            in_flight: Semaphore::new(max_in_flight),
            creations: Semaphore::new(create::IN_FLIGHT),
            dry_run,
            metrics,
        }
    }

    /// Does it, or not, and says so. `reason` is why the rule wants it.
    pub async fn perform(
        &self,
        component: &'static str,
        target: &Target<'_>,
        action: Action,
        reason: &'static str,
    ) -> Applied {
        let applied = self.write(target, &action).await;
        self.metrics
            .acted(component, action.name(), reason, applied.label());
        self.log(component, target, action.name(), reason, &applied);
        if let Applied::Failed(error) = &applied {
            self.report(target, &action, error).await;
        }
        applied
    }

    /// One line for each action: what was done to what by whom, why, and what became of it.
    pub(super) fn log(
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
        let write = async {
            if target.is_stale() {
                return Applied::Outdated;
            }
            judge(within(CALL_LIMIT, self.call(target, action)).await)
        };
        self.guarded(write).await
    }

    /// In its turn, unless this is a dry run or another replica leads.
    pub(super) async fn guarded(&self, write: impl Future<Output = Applied>) -> Applied {
        // The semaphore is never closed.
        let _permit = self.in_flight.acquire().await;
        if self.dry_run {
            return Applied::Withheld;
        }
        // Asked after waiting for the permit, as late as can be.
        if !self.leadership.holds() {
            return Applied::NotLeading;
        }
        write.await
    }

    async fn call(&self, target: &Target<'_>, action: &Action) -> kube::Result<()> {
        let (api, name) = (self.api(target), &target.name.name);
        if *action == Action::Delete {
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

    /// A refusal is the user's to know: missing rights, a policy, an admission webhook. So is an outage, for some actions.
    async fn report(&self, target: &Target<'_>, action: &Action, error: &kube::Error) {
        let kube::Error::Api(status) = error else {
            return;
        };
        let outage = status.code >= 500 && action.tells_of_outages();
        if (400..429).contains(&status.code) || outage {
            let regarding = target.reference();
            self.events
                .count(&regarding, &refusal(action, status))
                .await;
        }
    }

    /// Tells users about an object, where this replica leads and this is no dry run; beside the caller, who must not wait for an API
    /// server that takes writes but no events. Calls `otherwise` if nobody was told.
    pub fn announce(
        self: &Arc<Self>,
        regarding: Regarding,
        announcement: Announcement,
        otherwise: impl FnOnce() + Send + 'static,
    ) {
        let Regarding { kind, name, uid } = &regarding;
        let (reason, note) = (announcement.reason, &announcement.note);
        tracing::info!(kind = kind.plural(), object = %name, reason, note, "told");
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
            let told = apply.leadership.holds() && publish.await;
            if !told {
                otherwise();
            }
        });
    }
}

fn refusal(action: &Action, status: &Status) -> Announcement {
    Announcement {
        reason: action.failure(),
        action: action.name(),
        warning: true,
        note: format!(
            "The API server {} it, {}: {}",
            if status.code < 500 {
                "refused"
            } else {
                "failed at"
            },
            match action {
                // Nobody stays to ask again.
                Action::TakeBack(_) => "so run volume-warden drain again",
                _ => "and will be asked again",
            },
            status.message
        ),
        related: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cluster::Elector,
        objects::{Kind, ObjectName},
    };
    use kube::client::Body;
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::Instant;

    #[test]
    fn a_refusal_says_who_asks_again() {
        let status = json!({"code": 403, "reason": "Forbidden", "message": "no"});
        let status: Status = serde_json::from_value(status).expect("a status");
        let note = |action| refusal(&action, &status).note;
        let again = "The API server refused it, and will be asked again: no";
        assert_eq!(note(Action::Delete), again);
        let drained = "The API server refused it, so run volume-warden drain again: no";
        assert_eq!(note(Action::TakeBack(Vec::new())), drained);
    }

    /// What was decided by others that may have changed since is not carried out late, however long it had to wait.
    #[tokio::test(start_paused = true)]
    async fn an_old_decision_is_not_carried_out() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = calls.clone();
        let service = tower::service_fn(move |_: http::Request<Body>| {
            counter.fetch_add(1, Ordering::SeqCst);
            let answer = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {}});
            let answer = Body::from(answer.to_string().into_bytes());
            std::future::ready(Ok::<_, std::io::Error>(http::Response::new(answer)))
        });
        let (lead, leadership) = Elector::by_hand();
        let now = Instant::now();
        lead.send_replace(Some(now + Duration::from_secs(600)));
        let metrics = Arc::new(Metrics::new());
        let client = Client::new(service, "default");
        let apply = Apply::new(client, leadership, 1, false, metrics);
        let name = ObjectName::new("ns", "claim");
        let outcome = async |decided| {
            let target = Target::new(Kind::PersistentVolumeClaim, &name, "uid");
            let target = Target { decided, ..target };
            let action = Action::AddFinalizer("f");
            apply.perform("test", &target, action, "Test").await.label()
        };
        assert_eq!(outcome(Some(now)).await, "Done");
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(outcome(None).await, "Done");
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        assert_eq!(outcome(Some(now)).await, "Outdated");
        assert_eq!(calls.load(Ordering::SeqCst), 2, "nothing was sent");
    }
}
