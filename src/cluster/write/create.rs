//! Creation of objects by the only writer.

use super::applied::{Applied, is_about_another_object};
use super::apply::ALWAYS;
use super::apply::Apply;
use super::apply::Turn;
use super::apply::WRITE_TIMEOUT;
use super::lanes::Lane;
use super::send::send;
use super::target::Target;
use crate::cluster::api::within;
use crate::objects::{Kind, ObjectName};
use kube::{Resource, api::DynamicObject};
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// An object that the writer creates.
#[derive(Clone, Copy, Debug)]
pub struct Creation<'a> {
    /// The kind of the object, which selects the API endpoint.
    pub kind: Kind,
    /// The name of the object, as in the manifest.
    pub name: &'a ObjectName,
    /// The complete manifest of the object. The API server refuses fields that it does not know.
    pub manifest: &'a Value,
}

/// Who waits for the creation of an object, which decides about leadership and time limit.
#[derive(Clone, Copy, Debug)]
pub enum Caller {
    /// A reconciler waits. Only the leader creates objects in the background, in turn with the
    /// other writes of [`Lane::Ownership`], and not after this instant: then the reads that justify
    /// the object are too old.
    Reconciler(Instant),
    /// A reconciler waits, and no pod: only the leader creates the object, in turn with bulk
    /// writes, and not after this instant, if there is one.
    Bulk(Option<Instant>),
    /// An admission review waits. Any replica creates the object, because every replica answers
    /// reviews, and it does so without waiting for background writes.
    Review {
        /// When the API server must have answered.
        until: Instant,
        /// When a conflict is no longer retried, so that other objects of the review get their
        /// part of the time.
        retry_until: Instant,
    },
}

const ACTION: &str = "Create";
/// Pause between two attempts while a review waits.
const PAUSE: Duration = Duration::from_millis(20);

impl Apply {
    /// Creates an object and returns the outcome. [`Applied::Stale`] means that an object of that
    /// name exists, or that the time of the caller is over. For [`Caller::Reconciler`] it can also
    /// mean that the API server answered with another conflict (409), after which the caller should
    /// retry. This function publishes no Event about a refusal by the API server; the caller does,
    /// on the object that requested the creation.
    pub async fn create(
        &self,
        component: &'static str,
        creation: Creation<'_>,
        caller: Caller,
        reason: &'static str,
    ) -> Applied {
        if self.excludes(creation.kind, &creation.name.namespace) {
            return Applied::Withheld;
        }
        let applied = self.admit(creation, caller).await;
        let target = Target::new(creation.kind, creation.name, "");
        self.record(component, &target, ACTION, reason, &applied);
        applied
    }

    async fn admit(&self, creation: Creation<'_>, caller: Caller) -> Applied {
        if self.dry_run {
            return Applied::Withheld;
        }
        match caller {
            Caller::Reconciler(until) => {
                let turn = (Lane::Ownership, Some(until));
                self.create_in_turn(creation, turn).await
            }
            Caller::Bulk(until) => self.create_in_turn(creation, (Lane::Bulk, until)).await,
            Caller::Review { until, retry_until } => loop {
                let left = until.saturating_duration_since(Instant::now());
                let created = within(left, self.post(creation)).await;
                match created {
                    Err(error) if !is_conflict(&error) => return judge(Err(error)),
                    Err(error) if Instant::now() + PAUSE >= until.min(retry_until) => {
                        return Applied::Failed(error);
                    }
                    Err(_) => tokio::time::sleep(PAUSE).await,
                    Ok(()) => return Applied::Done,
                }
            },
        }
    }

    /// Waits for a permit of this lane, until this instant, and creates the object.
    async fn create_in_turn(
        &self,
        creation: Creation<'_>,
        (lane, deadline): (Lane, Option<Instant>),
    ) -> Applied {
        let write = || async {
            match within(WRITE_TIMEOUT, self.post(creation)).await {
                Err(error) if lane == Lane::Bulk && is_conflict(&error) => Applied::Failed(error),
                created => judge(created),
            }
        };
        let turn = Turn {
            lane,
            namespace: &creation.name.namespace,
            deadline,
            still_holds: ALWAYS,
        };
        self.in_turn(turn, write).await
    }

    /// Sends the POST without kube's `Api::create`, because its parameters have no
    /// `fieldValidation`.
    async fn post(&self, creation: Creation<'_>) -> kube::Result<()> {
        let resource = creation.kind.api_resource();
        let namespace = Some(&*creation.name.namespace).filter(|namespace| !namespace.is_empty());
        let url = DynamicObject::url_path(&resource, namespace) + "?fieldValidation=Strict";
        let body = serde_json::to_vec(creation.manifest).map_err(kube::Error::SerdeError)?;
        let request = http::Request::post(url)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(kube::Error::HttpError)?;
        send(&self.client, request).await
    }
}

/// Returns whether the API server reports a conflict although no object of that name exists: two
/// requests competed for something else, such as the rest of a quota.
fn is_conflict(error: &kube::Error) -> bool {
    let conflict = matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason != "AlreadyExists");
    conflict && !is_about_another_object(error)
}

fn judge(created: kube::Result<()>) -> Applied {
    match created {
        Ok(()) => Applied::Done,
        Err(error) if is_about_another_object(&error) => Applied::Failed(error),
        Err(kube::Error::Api(status)) if status.code == 409 => Applied::Stale,
        Err(error) => Applied::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;
    use serde_json::json;

    /// Whether a review tries again, and the outcome for a reconciler.
    fn answered(status: Value) -> (bool, &'static str) {
        let status: Status = serde_json::from_value(status).expect("a status");
        let error = || kube::Error::Api(Box::new(status.clone()));
        (is_conflict(&error()), judge(Err(error())).label())
    }

    #[test]
    fn the_refusal_of_a_webhook_is_no_conflict() {
        let conflict = json!({"code": 409, "reason": "Conflict"});
        let exists = json!({"code": 409, "reason": "AlreadyExists"});
        let denied = json!({"code": 409, "reason": "Conflict", "message": "admission webhook \"a.b\" denied the request: no"});
        assert_eq!(answered(conflict), (true, "Stale"));
        assert_eq!(answered(exists), (false, "Stale"));
        assert_eq!(answered(denied), (false, "Failed"));
    }
}
