//! The outcome of a write to the API server.

use crate::cluster::api::{is_absent, is_denied_by_webhook, is_refused};
use crate::cluster::run::{ReconcileError, Reconciled, Requeue};
use crate::telemetry::FAILED;
use kube::core::Status;

/// The outcome of an action: whether it was written, and if not, why.
#[derive(Debug)]
pub enum Applied {
    /// The write succeeded, or the object does not exist and the action permits that.
    Done,
    /// Nothing was written, because this is a dry run, or because the namespace of the object has
    /// opted out; see [`Excluded`](crate::cluster::Excluded).
    Withheld,
    /// Nothing was written, because this replica does not lead or cannot be sure that it does.
    NotLeading,
    /// Nothing was written: the object has changed since the decision, or does not exist any more,
    /// or the decision is too old or refuted by a watch. Reconcile the object again.
    Stale,
    /// The API server refused the write or did not answer.
    Failed(kube::Error),
}

impl Applied {
    /// Converts the outcome to the result of a reconcile. An error makes the reconciler retry even
    /// without a new event.
    ///
    /// # Errors
    /// When the action was not written, and a retry may succeed.
    pub fn into_reconciled(self) -> Reconciled {
        match self {
            Self::Done | Self::Withheld => Ok(Requeue::OnEvent),
            Self::NotLeading => Err(ReconcileError::new(
                "nothing was written, because this replica \
                is not the leader",
            )),
            Self::Stale => Err(ReconcileError::new(
                "nothing was written, because the object has changed since the decision, or the \
                 decision is too old, or a watch refutes it",
            )),
            Self::Failed(error) => Err(ReconcileError::new(error.to_string())),
        }
    }

    /// Returns whether the cached object is stale: the API server accepted the write, or the object
    /// no longer exists.
    pub fn written(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// Returns whether the API server may have accepted the write: it did, or its answer is
    /// missing or does not say. A limit of destructive actions counts such a write.
    pub fn may_be_written(&self) -> bool {
        match self {
            Self::Done => true,
            Self::Failed(error) => !is_refused(error),
            Self::Withheld | Self::NotLeading | Self::Stale => false,
        }
    }

    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Done => "Done",
            Self::Withheld => "Withheld",
            Self::NotLeading => "NotLeading",
            Self::Stale => "Stale",
            Self::Failed(_) => FAILED,
        }
    }
}

/// Derives the outcome from the API server's answer. A missing object needs no write any more, so
/// the write is done. Any other 404 does not show whether the write arrived, so the write is
/// retried.
///
/// A webhook that refuses the write chooses code and reason itself: often those of an object that
/// it could not find or write. They say nothing about the object of this write. Neither does a 404
/// about its namespace, which the admission plugin NamespaceLifecycle answers.
///
/// The API server answers 422 without causes if a `test` operation fails, and 409 if another write
/// came first. A 422 with causes is a validation error, except the one for a finalizer that is
/// added after the deletion of the object has begun: that one shows that the object has changed,
/// too.
pub(crate) fn judge(written: kube::Result<()>) -> Applied {
    match written {
        Ok(()) => Applied::Done,
        Err(error) if is_about_another_object(&error) => Applied::Failed(error),
        Err(error) if is_absent(&error) => Applied::Done,
        Err(kube::Error::Api(status)) if status.code == 409 => Applied::Stale,
        Err(kube::Error::Api(status)) if status.code == 422 && !is_invalid(&status) => {
            Applied::Stale
        }
        Err(error) => Applied::Failed(error),
    }
}

/// Returns whether the answer is the refusal of an admission webhook, or is about the namespace of
/// the object.
pub(super) fn is_about_another_object(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let kind = status.details.as_ref().map(|details| &*details.kind);
    is_denied_by_webhook(status) || kind == Some("namespaces")
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
    use serde_json::json;

    fn judged(status: serde_json::Value) -> &'static str {
        let status: Status = serde_json::from_value(status).expect("a status");
        judge(Err(kube::Error::Api(Box::new(status)))).label()
    }

    #[test]
    fn an_answer_that_does_not_come_may_be_a_write() {
        let status = |code| {
            let status = json!({"code": code, "reason": "Any"});
            let status: Status = serde_json::from_value(status).expect("a status");
            judge(Err(kube::Error::Api(Box::new(status)))).may_be_written()
        };
        assert_eq!([403, 409, 500, 504].map(status), [false, false, true, true]);
        let silent = kube::Error::Service("no answer".into());
        assert!(judge(Err(silent)).may_be_written());
        assert!(judge(Ok(())).may_be_written());
        assert!(!Applied::NotLeading.may_be_written());
    }

    /// The statuses are real answers of the API server.
    #[test]
    fn answers_are_distinguished() {
        let late = "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"a\"}";
        let denied = "admission webhook \"a.example.com\" denied the request: storageclasses.storage.k8s.io \"fast\" not found";
        for (answer, expected) in [
            (json!({"code": 404, "reason": "NotFound"}), "Done"),
            (
                json!({"code": 404, "reason": "NotFound", "details": {"kind": "persistentvolumeclaims", "name": "data"}}),
                "Done",
            ),
            (
                json!({"code": 404, "reason": "Failed to parse error data", "message": "404 page not found"}),
                "Failed",
            ),
            (json!({"code": 404, "reason": ""}), "Failed"),
            (json!({"code": 409, "reason": "Conflict"}), "Stale"),
            (
                json!({"code": 422, "reason": "Invalid", "details": {}}),
                "Stale",
            ),
            (
                json!({"code": 422, "reason": "Invalid", "details": {"causes": [{"message": late}]}}),
                "Stale",
            ),
            (
                json!({"code": 422, "reason": "Invalid", "details": {"causes": [{"message": "must not be so"}]}}),
                "Failed",
            ),
            (
                json!({"code": 404, "reason": "NotFound", "message": denied, "details": {"kind": "storageclasses"}}),
                "Failed",
            ),
            (
                json!({"code": 409, "reason": "Conflict", "message": denied}),
                "Failed",
            ),
            (
                json!({"code": 422, "reason": "Invalid", "message": denied}),
                "Failed",
            ),
            (
                json!({"code": 404, "reason": "NotFound", "details": {"kind": "namespaces", "name": "shop"}}),
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
