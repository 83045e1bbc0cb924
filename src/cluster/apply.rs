//! The only writer. What a rule wants is data; this turns it into a guarded patch and says what became of it.

use super::{Retry, client::within, lease::Leadership};
use crate::{
    objects::{Kind, ObjectName, finalizers},
    telemetry::Metrics,
};
use json_patch::{Patch, PatchOperation, TestOperation, jsonptr::PointerBuf};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Client,
    api::{DynamicObject, PatchParams},
    core::Status,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// Shorter than the time between our last write as a leader and another replica's first, see `lease`.
const CALL_LIMIT: Duration = Duration::from_secs(4);
/// The API server takes no longer note in an Event.
const NOTE_LIMIT: usize = 1000;

/// A change to an object, as a rule wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Append this finalizer.
    AddFinalizer(&'static str),
    /// Remove every occurrence of this finalizer.
    RemoveFinalizer(&'static str),
}

impl Action {
    /// For the log and the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::AddFinalizer(_) => "AddFinalizer",
            Self::RemoveFinalizer(_) => "RemoveFinalizer",
        }
    }

    /// The reason of the Warning event when the API server refuses it.
    fn failure(self) -> &'static str {
        match self {
            Self::AddFinalizer(_) => "FailedAddFinalizer",
            Self::RemoveFinalizer(_) => "FailedRemoveFinalizer",
        }
    }
}

/// The object an action is for, as it was when the rule decided.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: &'a ObjectName,
    /// Always tested: the same name may belong to another object by now.
    pub uid: &'a str,
    /// Tested where the decision rests on this object alone, so that any change of it asks the rule again.
    pub resource_version: Option<&'a str>,
    /// The list that a finalizer is added to or removed from.
    pub finalizers: &'a [Box<str>],
}

/// What became of an action.
#[derive(Debug)]
pub enum Applied {
    /// It is as wanted: written, or the object is gone.
    Done,
    /// Nothing was written: this is a dry run.
    Withheld,
    /// Nothing was written: this replica does not lead, or not for sure.
    NotLeading,
    /// The object is not what the rule saw. Look again.
    Outdated,
    /// The API server did not take it.
    Failed(kube::Error),
}

impl Applied {
    /// For a reconcile: whether the object has to be looked at again although nothing may happen to it.
    ///
    /// # Errors
    /// When what was wanted was not written and could be.
    pub fn settled(self) -> Result<(), Retry> {
        match self {
            Self::Done | Self::Withheld => Ok(()),
            Self::NotLeading => Err(Retry("this replica does not lead".into())),
            Self::Outdated => Err(Retry("it changed meanwhile".into())),
            Self::Failed(error) => Err(Retry(error.to_string())),
        }
    }

    /// The API server took it, so whatever is cached of the object is history.
    pub fn written(&self) -> bool {
        matches!(self, Self::Done)
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Done => "Done",
            Self::Withheld => "Withheld",
            Self::NotLeading => "NotLeading",
            Self::Outdated => "Outdated",
            Self::Failed(_) => "Failed",
        }
    }
}

/// See the module.
pub struct Apply {
    client: Client,
    recorder: Recorder,
    leadership: Leadership,
    in_flight: Semaphore,
    dry_run: bool,
    metrics: Arc<Metrics>,
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
        let reporter = Reporter {
            controller: "volume-warden.dev/volume-warden".into(),
            instance: None,
        };
        let recorder = Recorder::new(client.clone(), reporter);
        Self {
            client,
            recorder,
            leadership,
            in_flight: Semaphore::new(max_in_flight),
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
        let applied = self.patch(target, action).await;
        self.metrics
            .acted(component, action.name(), reason, applied.label());
        let (kind, object, action_name, outcome) = (
            target.kind.plural(),
            target.name,
            action.name(),
            applied.label(),
        );
        tracing::debug!(component, kind, %object, action = action_name, reason, outcome, dry_run = self.dry_run, "action");
        if self.dry_run {
            tracing::info!(component, kind, %object, action = action_name, reason, "would act");
        }
        if let Applied::Failed(error) = &applied {
            self.report(target, action, error).await;
        }
        applied
    }

    async fn patch(&self, target: &Target<'_>, action: Action) -> Applied {
        // The semaphore is never closed.
        let _permit = self.in_flight.acquire().await;
        if self.dry_run {
            return Applied::Withheld;
        }
        // Asked after waiting for the permit, as late as can be.
        if !self.leadership.holds() {
            return Applied::NotLeading;
        }
        let patch = kube::api::Patch::<()>::Json(Patch(operations(target, action)));
        let api = self.api(target);
        let parameters = PatchParams::default();
        judge(
            within(
                CALL_LIMIT,
                api.patch_metadata(&target.name.name, &parameters, &patch),
            )
            .await
            .map(drop),
        )
    }

    fn api(&self, target: &Target<'_>) -> Api<DynamicObject> {
        let resource = target.kind.api_resource();
        if target.name.namespace.is_empty() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), &target.name.namespace, &resource)
        }
    }

    /// A refusal is the user's to know: missing rights, a policy, an admission webhook.
    async fn report(&self, target: &Target<'_>, action: Action, error: &kube::Error) {
        tracing::warn!(kind = target.kind.plural(), object = %target.name, action = action.name(), %error, "not written");
        let kube::Error::Api(status) = error else {
            return;
        };
        if !(400..429).contains(&status.code) {
            return;
        }
        let mut note = format!(
            "The API server refused it, and will be asked again: {}",
            status.message
        );
        note.truncate(note.floor_char_boundary(NOTE_LIMIT));
        let event = Event {
            type_: EventType::Warning,
            reason: action.failure().into(),
            note: Some(note),
            action: action.name().into(),
            secondary: None,
        };
        if let Err(error) = within(
            CALL_LIMIT,
            self.recorder.publish(&event, &reference(target)),
        )
        .await
        {
            tracing::info!(object = %target.name, %error, "the event was not published");
        }
    }
}

fn reference(target: &Target<'_>) -> ObjectReference {
    let resource = target.kind.api_resource();
    ObjectReference {
        api_version: Some(resource.api_version),
        kind: Some(resource.kind),
        name: Some(target.name.name.to_string()),
        namespace: Some(target.name.namespace.to_string())
            .filter(|namespace| !namespace.is_empty()),
        uid: Some(target.uid.to_owned()),
        ..ObjectReference::default()
    }
}

fn operations(target: &Target<'_>, action: Action) -> Vec<PatchOperation> {
    let mut operations = vec![test("uid", target.uid)];
    operations.extend(
        target
            .resource_version
            .map(|version| test("resourceVersion", version)),
    );
    match action {
        Action::AddFinalizer(finalizer) => {
            operations.push(finalizers::append(target.finalizers, finalizer))
        }
        Action::RemoveFinalizer(finalizer) => {
            operations.extend(finalizers::remove(target.finalizers, finalizer))
        }
    }
    operations
}

fn test(field: &str, value: &str) -> PatchOperation {
    PatchOperation::Test(TestOperation {
        path: PointerBuf::from_tokens(["metadata", field]),
        value: json!(value),
    })
}

/// A `test` that fails is answered with 422 and no causes, a lost race inside the API server with 409. A 422 with causes is
/// somebody's validation, unless the object began to be deleted before our finalizer came.
fn judge(written: kube::Result<()>) -> Applied {
    match written {
        Ok(()) => Applied::Done,
        Err(kube::Error::Api(status)) if status.code == 404 => Applied::Done,
        Err(kube::Error::Api(status)) if status.code == 409 => Applied::Outdated,
        Err(kube::Error::Api(status)) if status.code == 422 && !is_invalid(&status) => {
            Applied::Outdated
        }
        Err(error) => Applied::Failed(error),
    }
}

fn is_invalid(status: &Status) -> bool {
    let causes = status
        .details
        .as_ref()
        .map(|details| details.causes.as_slice())
        .unwrap_or_default();
    causes
        .iter()
        .any(|cause| !cause.message.contains("no new finalizers can be added"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: serde_json::Value) -> &'static str {
        let status: Status = serde_json::from_value(status).expect("a status");
        judge(Err(kube::Error::Api(Box::new(status)))).label()
    }

    /// As the API server answers, by its real responses.
    #[test]
    fn answers_are_told_apart() {
        let late = "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"a\"}";
        for (answer, expected) in [
            (json!({"code": 404, "reason": "NotFound"}), "Done"),
            (json!({"code": 409, "reason": "Conflict"}), "Outdated"),
            (
                json!({"code": 422, "reason": "Invalid", "details": {}}),
                "Outdated",
            ),
            (
                json!({"code": 422, "reason": "Invalid", "details": {"causes": [{"message": late}]}}),
                "Outdated",
            ),
            (
                json!({"code": 422, "reason": "Invalid", "details": {"causes": [{"message": "must not be so"}]}}),
                "Failed",
            ),
            (json!({"code": 403, "reason": "Forbidden"}), "Failed"),
            (json!({"code": 429, "reason": "TooManyRequests"}), "Failed"),
            (json!({"code": 504, "reason": "Timeout"}), "Failed"),
        ] {
            assert_eq!(judged(answer.clone()), expected, "{answer}");
        }
    }
}
