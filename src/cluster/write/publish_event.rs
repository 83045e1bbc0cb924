//! The Events of the writer: those that the components publish, and those about refused writes.

use super::action::Action;
use super::apply::Apply;
use super::event_content::EventContent;
use super::event_content::Regarding;
use super::events::Publication;
use super::target::Target;
use crate::cluster::api::{for_users, is_lasting_refusal};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::Status;
use std::sync::Arc;

impl Apply {
    /// Publishes an Event about an object if this replica leads, the namespace has not opted out
    /// and this is not a dry run. It does so in a separate task, because the caller must not wait
    /// for an API server that accepts writes but no Events.
    pub fn publish_event(self: &Arc<Self>, regarding: Regarding, event_content: EventContent) {
        self.publish_event_or(regarding, event_content, || {});
    }

    /// Publishes an Event as [`Self::publish_event`] does. Calls `otherwise` if no Event was
    /// published and a later attempt may succeed, except in a dry run.
    pub fn publish_event_or(
        self: &Arc<Self>,
        regarding: Regarding,
        event_content: EventContent,
        otherwise: impl FnOnce() + Send + 'static,
    ) {
        self.publish_event_by(regarding, event_content, false, otherwise);
    }

    /// Publishes an Event as [`Self::publish_event`] does, unless an Event about the object with
    /// this reason and note exists, for example because an earlier leader published it.
    pub fn publish_event_once(
        self: &Arc<Self>,
        regarding: Regarding,
        event_content: EventContent,
        otherwise: impl FnOnce() + Send + 'static,
    ) {
        self.publish_event_by(regarding, event_content, true, otherwise);
    }

    fn publish_event_by(
        self: &Arc<Self>,
        regarding: Regarding,
        event_content: EventContent,
        once: bool,
        otherwise: impl FnOnce() + Send + 'static,
    ) {
        let (apply, event_content) = (self.clone(), event_content.shortened());
        #[expect(clippy::disallowed_methods, reason = "no write waits for this Event")]
        tokio::spawn(async move {
            let Regarding { kind, name, uid } = &regarding;
            let regarded = Target::new(*kind, name, uid).reference();
            let (reason, note) = (event_content.reason, &event_content.note);
            let kind = kind.plural();
            if apply.dry_run {
                tracing::info!(kind, object = %name, reason, note, "would publish event");
                return;
            }
            let published = if apply.excluded.contains(&name.namespace) {
                Publication::Failed
            } else {
                apply
                    .publish_as_leader(&regarded, &event_content, once)
                    .await
            };
            match published {
                Publication::Published => {
                    tracing::info!(kind, object = %name, reason, note, "event published");
                }
                Publication::Failed => otherwise(),
                Publication::Impossible => {}
            }
        });
    }

    /// Publishes an Event about an object of any kind as [`Self::publish_event`] does, but without
    /// a log line, and also in namespaces that have opted out.
    pub fn publish(
        self: &Arc<Self>,
        regarded: ObjectReference,
        event_content: EventContent,
        otherwise: impl FnOnce() + Send + 'static,
    ) {
        let (apply, event_content) = (self.clone(), event_content.shortened());
        #[expect(
            clippy::disallowed_methods,
            reason = "the caller does not wait for this Event"
        )]
        tokio::spawn(async move {
            if apply.dry_run {
                return;
            }
            let publication = apply.publish_as_leader(&regarded, &event_content, false);
            if publication.await == Publication::Failed {
                otherwise();
            }
        });
    }

    async fn publish_as_leader(
        &self,
        regarded: &ObjectReference,
        event_content: &EventContent,
        once: bool,
    ) -> Publication {
        if !self.leadership.holds() {
            return Publication::Failed;
        }
        if once {
            self.events.publish_once(regarded, event_content).await
        } else {
            self.events.publish(regarded, event_content).await
        }
    }

    /// Waits until the Events about refused writes are published or have failed, before the
    /// process ends.
    pub async fn reported(&self) {
        self.events.counted().await;
    }

    /// Publishes an Event about a refused write, for example because of missing permissions, a
    /// policy or an admission webhook. For some actions, an outage of the API server is reported,
    /// too. The caller does not wait for the Event.
    pub(super) fn report(&self, target: &Target<'_>, action: &Action, error: &kube::Error) {
        let kube::Error::Api(status) = error else {
            return;
        };
        let outage = status.code >= 500 && action.on_refusal.outages;
        if (is_lasting_refusal(error) || outage)
            && let Some(refusal) = refusal(action, status)
        {
            self.events.count(target.reference(), refusal);
        }
    }
}

/// The Event about the answer; none for the answer of a proxy.
fn refusal(action: &Action, status: &Status) -> Option<EventContent> {
    let message = for_users(status)?;
    Some(EventContent {
        reason: action.on_refusal.reason,
        action: action.name,
        warning: true,
        note: format!(
            "The API server {}, {}: {message}",
            if status.code < 500 {
                "refused the write"
            } else {
                "returned an error"
            },
            action.on_refusal.next,
        ),
        related: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Basis, Lane, OnRefusal, Proof};
    use serde_json::json;
    use std::time::Duration;

    #[tokio::test]
    async fn a_refusal_says_what_happens_next() {
        let status = json!({"code": 403, "reason": "Forbidden", "message": "no"});
        let status: Status = serde_json::from_value(status).expect("a status");
        let note = |action| refusal(&action, &status).expect("an Event").note;
        let again = "The API server refused the write, and the write is retried: no";
        let proof = Proof::of_test(Duration::from_secs(2));
        assert_eq!(note(Action::delete(proof)), again);
        let on_refusal = OnRefusal {
            next: "so run the command again",
            ..OnRefusal::new("FailedRelease")
        };
        let action = Action::patch(
            "Release",
            Lane::Release,
            Vec::new(),
            Basis::Object,
            on_refusal,
        );
        let expected = "The API server refused the write, so run the command again: no";
        assert_eq!(note(action), expected);
    }
}
