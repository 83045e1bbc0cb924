//! A write that is being admitted, and its AdmissionReview.

use crate::{route::Route, server::User};
use serde_json::{Value, json};
use std::sync::Arc;

/// A write that is being admitted.
pub(crate) struct Write<'a> {
    pub(crate) user: &'a User,
    pub(crate) route: &'a Route,
    pub(crate) operation: &'static str,
    pub(crate) old: Option<&'a Arc<Value>>,
}

/// The AdmissionReview of a write, without its uid.
pub(crate) fn review_of(write: &Write<'_>, new: Option<&Value>) -> Value {
    let (route, resource) = (write.route, write.route.resource);
    let kind = match route.subresource.as_str() {
        "binding" => "Binding",
        _ => resource.kind,
    };
    let kind = json!({"group": resource.group, "version": resource.version, "kind": kind});
    let plural =
        json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
    let name = new
        .and_then(|object| object["metadata"]["name"].as_str())
        .unwrap_or(&route.name);
    let mut request = json!({
        "kind": kind, "resource": plural,
        "requestKind": kind, "requestResource": plural, "name": name, "operation": write.operation,
        "userInfo": {"username": write.user.name, "groups": write.user.groups},
        "dryRun": route.parameter("dryRun") == "All", "options": null,
    });
    // The macro would serialize the objects to copy them.
    request["object"] = new.cloned().unwrap_or_default();
    request["oldObject"] = write.old.map(|old| (**old).clone()).unwrap_or_default();
    if !route.subresource.is_empty() {
        request["subResource"] = route.subresource.as_str().into();
        request["requestSubResource"] = route.subresource.as_str().into();
    }
    if resource.namespaced {
        request["namespace"] = route.namespace.as_str().into();
    }
    let mut review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"});
    review["request"] = request;
    review
}
