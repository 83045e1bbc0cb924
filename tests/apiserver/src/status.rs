//! The error answers of the API server.
//!
//! Source: `staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go` of Kubernetes.

use crate::resources::Resource;
use serde_json::{Value, json};

/// An error answer.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: u16,
    reason: &'static str,
    message: String,
    details: Value,
}

/// The result of an operation.
pub(crate) type Answer<T> = Result<T, Failure>;

impl Failure {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
        }
    }

    fn about(mut self, resource: &Resource, name: &str) -> Self {
        self.details = json!({"name": name, "group": resource.group, "kind": resource.plural});
        self
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.qualified());
        Self::new(404, "NotFound", message).about(resource, name)
    }

    /// There is no such resource.
    pub(crate) fn unknown() -> Self {
        let mut failure = Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        );
        failure.details = json!({});
        failure
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str, deleting: bool) -> Self {
        let prefix = if deleting {
            "object is being deleted: "
        } else {
            ""
        };
        let message = format!("{prefix}{} {name:?} already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message).about(resource, name)
    }

    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            resource.qualified()
        );
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// A pod cannot be bound to a node.
    pub(crate) fn binding(pod: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on pods/binding {pod:?}: {why}");
        let mut failure = Self::new(409, "Conflict", message);
        failure.details = json!({"name": pod, "group": "", "kind": "pods/binding"});
        failure
    }

    /// A precondition of a deletion does not hold.
    pub(crate) fn precondition(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            kind(resource)
        );
        let mut failure = Self::new(409, "Conflict", message).about(resource, name);
        failure.details["kind"] = resource.kind.into();
        failure
    }

    /// The object was changed since the client read it.
    pub(crate) fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    pub(crate) fn invalid(resource: &Resource, name: &str, field: &str, detail: &str) -> Self {
        let message = format!("{} {name:?} is invalid: {field}: {detail}", kind(resource));
        let mut failure = Self::new(422, "Invalid", message).about(resource, name);
        failure.details["kind"] = resource.kind.into();
        let (reason, message) = match detail.split_once(':') {
            Some(("Forbidden", _)) => ("FieldValueForbidden", detail),
            Some(("Required value", _)) => ("FieldValueRequired", detail),
            _ => ("FieldValueInvalid", detail),
        };
        failure.details["causes"] = json!([{"reason": reason, "message": message, "field": field}]);
        failure
    }

    /// A kind whose updates have to name the resourceVersion.
    pub(crate) fn unconditional(resource: &Resource, name: &str) -> Self {
        let detail = "Invalid value: 0: must be specified for an update";
        let mut failure = Self::invalid(resource, name, "metadata.resourceVersion", detail);
        failure.message = format!(
            "{} {name:?} is invalid: metadata.resourceVersion: {detail}",
            resource.qualified()
        );
        failure.details["kind"] = resource.plural.into();
        failure
    }

    /// A patch whose `test` fails, or that cannot be applied.
    pub(crate) fn unprocessable() -> Self {
        let mut failure = Self::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        );
        failure.details = json!({});
        failure
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", resource.qualified());
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// The namespace of a new object is being deleted.
    pub(crate) fn terminating(resource: &Resource, name: &str, namespace: &str) -> Self {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut failure = Self::forbidden(resource, name, &why);
        let message = format!("namespace {namespace} is being terminated");
        failure.details["causes"] = json!([{"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}]);
        failure
    }

    pub(crate) fn gone(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }

    /// A new object has a resourceVersion. The real answer has no reason.
    pub(crate) fn version_of_a_new_object() -> Self {
        Self::new(
            500,
            "",
            "resourceVersion should not be set on objects to be created",
        )
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    pub(crate) fn unsupported_media_type() -> Self {
        let message = "the body of the request was in an unknown format";
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The refusal of a webhook, with its own status if it has one.
    pub(crate) fn denied(webhook: &str, status: &Value) -> Self {
        let said = status
            .get("message")
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty());
        let said = said.map_or(
            "denied the request without explanation".to_owned(),
            |text| format!("denied the request: {text}"),
        );
        let code = status
            .get("code")
            .and_then(Value::as_u64)
            .and_then(|code| u16::try_from(code).ok());
        Self {
            code: code.filter(|code| *code >= 400).unwrap_or(403),
            reason: "Forbidden",
            message: format!("admission webhook {webhook:?} {said}"),
            details: Value::Null,
        }
    }

    /// The body of the answer.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if self.reason.is_empty()
            && let Some(map) = status.as_object_mut()
        {
            map.remove("reason");
        }
        if !self.details.is_null() {
            let mut details = self.details.clone();
            if details["group"] == ""
                && let Some(map) = details.as_object_mut()
            {
                map.remove("group");
            }
            status["details"] = details;
        }
        status
    }
}

fn kind(resource: &Resource) -> String {
    match resource.group {
        "" => resource.kind.to_owned(),
        group => format!("{}.{group}", resource.kind),
    }
}
