//! The outcome of a write.

use crate::cluster::api::is_absent;
use crate::cluster::run::{ReconcileError, Reconciled, Requeue};
use kube::core::Status;

/// The outcome of an action.
#[derive(Debug)]
pub enum Applied {
    /// Done: written, or the object does not exist.
    Done,
    /// Nothing was written: this is a dry run.
    Withheld,
    /// Nothing was written: this replica does not lead, or not for sure.
    NotLeading,
    /// The object has changed since the decision, or the decision is too old. Reconcile again.
    Stale,
    /// The API server refused the write.
    Failed(kube::Error),
}

impl Applied {
    /// Converts the outcome for a reconcile: an error asks for a retry even without a new event.
    ///
    /// # Errors
    /// When the action was not written, and a retry may succeed.
    pub fn settled(self) -> Reconciled {
        match self {
            Self::Done | Self::Withheld => Ok(Requeue::OnEvent),
            Self::NotLeading => Err(ReconcileError::new("this replica does not lead")),
            Self::Stale => Err(ReconcileError::new("the object changed meanwhile")),
            Self::Failed(error) => Err(ReconcileError::new(error.to_string())),
        }
    }

    /// Whether the API server accepted the write, so that the cached object is stale.
    pub fn written(&self) -> bool {
        matches!(self, Self::Done)
    }

    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Done => "Done",
            Self::Withheld => "Withheld",
            Self::NotLeading => "NotLeading",
            Self::Stale => "Stale",
            Self::Failed(_) => "Failed",
        }
    }
}

/// An object that does not exist is as wanted: it needs no finalizer, owner or deletion any more.
/// Any other 404 leaves open whether the write arrived, so it is tried again.
///
/// A `test` that fails is answered with 422 and no causes, a lost race inside the API server with
/// 409. A 422 with causes is a validation error, unless the deletion of the object began before
/// the finalizer was added.
pub(crate) fn judge(written: kube::Result<()>) -> Applied {
    match written {
        Ok(()) => Applied::Done,
        Err(error) if is_absent(&error) => Applied::Done,
        Err(kube::Error::Api(status)) if status.code == 409 => Applied::Stale,
        Err(kube::Error::Api(status)) if status.code == 422 && !is_invalid(&status) => {
            Applied::Stale
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
    use serde_json::json;

    fn judged(status: serde_json::Value) -> &'static str {
        let status: Status = serde_json::from_value(status).expect("a status");
        judge(Err(kube::Error::Api(Box::new(status)))).label()
    }

    /// As the API server answers, by its real responses.
    #[test]
    fn answers_are_distinguished() {
        let late = "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"a\"}";
        for (answer, expected) in [
            (json!({"code": 404, "reason": "NotFound"}), "Done"),
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
            (json!({"code": 403, "reason": "Forbidden"}), "Failed"),
            (json!({"code": 429, "reason": "TooManyRequests"}), "Failed"),
            (json!({"code": 504, "reason": "Timeout"}), "Failed"),
        ] {
            assert_eq!(judged(answer.clone()), expected, "{answer}");
        }
    }
}
