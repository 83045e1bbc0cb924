//! Admission webhooks and policies.

use crate::{
    route::Route,
    selectors::Selectors,
    server::{ApiServer, Attempt, User},
    status::{Answer, Failure},
    store::{Store, resource},
    strategy::array,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Delivers the reviews of webhooks.
pub trait Admission: Send + Sync {
    /// Sends a review and returns the answer, an AdmissionReview. It has to end within the timeout
    /// of the call.
    ///
    /// # Errors
    /// When the call failed; the text says why. The failure policy of the webhook then decides.
    fn review<'a>(&'a self, call: WebhookCall<'a>) -> BoxFuture<'a, Result<Value, String>>;

    /// Evaluates a match condition, which is written in CEL, for an AdmissionRequest. `None` means
    /// that it cannot be evaluated; the failure policy of the webhook then decides.
    fn condition(&self, expression: &str, request: &Value) -> Option<bool> {
        let _ = (expression, request);
        None
    }
}

/// One call of a webhook.
pub struct WebhookCall<'a> {
    /// The name of the configuration.
    pub configuration: &'a str,
    /// The name of the webhook.
    pub webhook: &'a str,
    /// Where the webhook is, as in the configuration.
    pub client_config: &'a Value,
    /// The timeout of the call.
    pub timeout: Duration,
    /// The AdmissionReview.
    pub review: Value,
}

/// A webhook of a configuration.
pub(crate) struct Hook {
    mutating: bool,
    configuration: String,
    name: String,
    fails_open: bool,
    timeout: Duration,
    conditions: Vec<String>,
    namespaces: Selectors,
    objects: Selectors,
    spec: Value,
}

/// A write that is being admitted.
pub(crate) struct Write<'a> {
    pub(crate) user: &'a User,
    pub(crate) route: &'a Route,
    pub(crate) operation: &'static str,
    pub(crate) old: Option<&'a Arc<Value>>,
}

/// Reads the webhooks of all configurations, in the order in which they are called.
pub(crate) fn hooks(store: &Store) -> Vec<Hook> {
    let mut all = Vec::new();
    for (plural, mutating) in [
        ("mutatingwebhookconfigurations", true),
        ("validatingwebhookconfigurations", false),
    ] {
        let objects = resource(plural).and_then(|resource| store.kind(resource));
        for ((_, configuration), object) in objects.into_iter().flatten() {
            let webhooks = array(object, "/webhooks").iter();
            all.extend(webhooks.map(|webhook| Hook::new(mutating, configuration, webhook)));
        }
    }
    all
}

impl Hook {
    fn new(mutating: bool, configuration: &str, webhook: &Value) -> Self {
        let conditions = array(webhook, "/matchConditions").iter();
        Self {
            mutating,
            configuration: configuration.to_owned(),
            name: webhook["name"].as_str().unwrap_or_default().to_owned(),
            fails_open: webhook["failurePolicy"] == "Ignore",
            timeout: Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(10)),
            conditions: conditions
                .filter_map(|each| Some(each["expression"].as_str()?.to_owned()))
                .collect(),
            namespaces: Selectors::of_object(&webhook["namespaceSelector"]),
            objects: Selectors::of_object(&webhook["objectSelector"]),
            spec: webhook.clone(),
        }
    }

    /// Whether a rule of the webhook names the operation and the resource.
    fn rules_match(&self, write: &Write<'_>) -> bool {
        let resource = write.route.resource;
        let has = |rule: &Value, field: &str, value: &str| {
            let values = rule[field].as_array().into_iter().flatten();
            values
                .filter_map(Value::as_str)
                .any(|each| each == "*" || each == value)
        };
        let full = match write.route.subresource.as_str() {
            "" => resource.plural.to_owned(),
            subresource => format!("{}/{subresource}", resource.plural),
        };
        array(&self.spec, "/rules").iter().any(|rule| {
            has(rule, "operations", write.operation)
                && has(rule, "apiGroups", resource.group)
                && has(rule, "apiVersions", resource.version)
                && has(rule, "resources", &full)
                && match rule["scope"].as_str() {
                    Some("Cluster") => !resource.namespaced,
                    Some("Namespaced") => resource.namespaced,
                    _ => true,
                }
        })
    }
}

impl ApiServer {
    /// Calls the mutating webhooks, one after another, and returns the object that they leave.
    pub(crate) async fn mutated(
        &self,
        write: &Write<'_>,
        object: Value,
        warnings: &mut Vec<String>,
    ) -> Answer<Value> {
        let hooks = self.store().hooks.clone();
        let mut object = object;
        for hook in hooks
            .iter()
            .filter(|hook| hook.mutating && hook.rules_match(write))
        {
            let Some(answer) = self.call(hook, write, Some(&object), warnings).await? else {
                continue;
            };
            let Some(patch) = answer["response"]["patch"].as_str() else {
                continue;
            };
            let wrong = |error: String| {
                Failure::internal(format!("failed calling webhook {:?}: {error}", hook.name))
            };
            let patch = STANDARD
                .decode(patch)
                .map_err(|error| wrong(error.to_string()))?;
            let patch: json_patch::Patch =
                serde_json::from_slice(&patch).map_err(|error| wrong(error.to_string()))?;
            json_patch::patch(&mut object, &patch).map_err(|error| wrong(error.to_string()))?;
        }
        Ok(object)
    }

    /// Asks the policy and the validating webhooks. `new` is the object after the write.
    pub(crate) async fn validated(
        &self,
        write: &Write<'_>,
        new: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Answer<()> {
        let (policy, hooks) = (self.outside().policy, self.store().hooks.clone());
        let route = write.route;
        if let Some(policy) = policy {
            let attempt = Attempt {
                user: write.user,
                operation: write.operation,
                plural: route.resource.plural,
                subresource: &route.subresource,
                old: write.old.map(|old| &**old),
                new,
            };
            policy(&attempt).map_err(|why| match why.starts_with("exceeded quota") {
                true => Failure::forbidden(route.resource, &route.name, &why),
                false => Failure::invalid(route.resource, &route.name, "", &why),
            })?;
        }
        for hook in hooks
            .iter()
            .filter(|hook| !hook.mutating && hook.rules_match(write))
        {
            self.call(hook, write, new, warnings).await?;
        }
        Ok(())
    }

    /// Calls one webhook if it concerns the write. Returns its answer, or nothing if it was not
    /// called or failed open.
    async fn call(
        &self,
        hook: &Hook,
        write: &Write<'_>,
        new: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Answer<Option<Value>> {
        let Some(admission) = self.outside().admission else {
            return Ok(None);
        };
        if !self.selected(hook, write, new) {
            return Ok(None);
        }
        let request = self.request(write, new);
        let failed = |why: String| match hook.fails_open {
            true => Ok(None),
            false => Err(Failure::internal(format!(
                "Internal error occurred: failed calling webhook {:?}: {why}",
                hook.name
            ))),
        };
        for condition in &hook.conditions {
            match admission.condition(condition, &request) {
                Some(true) => {}
                Some(false) => return Ok(None),
                None => return failed("its match conditions cannot be evaluated".into()),
            }
        }
        let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request});
        let call = WebhookCall {
            configuration: &hook.configuration,
            webhook: &hook.name,
            client_config: &hook.spec["clientConfig"],
            timeout: hook.timeout,
            review,
        };
        let answer = match admission.review(call).await {
            Ok(answer) => answer,
            Err(why) => return failed(why),
        };
        let response = &answer["response"];
        let said = response["warnings"].as_array().into_iter().flatten();
        warnings.extend(said.filter_map(|warning| Some(warning.as_str()?.to_owned())));
        match response["allowed"] == true {
            true => Ok(Some(answer)),
            false => Err(Failure::denied(&hook.name, &response["status"])),
        }
    }

    /// Whether the selectors of the webhook match.
    fn selected(&self, hook: &Hook, write: &Write<'_>, new: Option<&Value>) -> bool {
        let old = write.old.map(|old| &**old);
        let mut objects = new.into_iter().chain(old);
        if !hook.objects.is_empty() && !objects.any(|object| hook.objects.match_object(object)) {
            return false;
        }
        if hook.namespaces.is_empty() || !write.route.resource.namespaced {
            return true;
        }
        let namespace = self.get("namespaces", "", &write.route.namespace);
        let labels = namespace.map(|namespace| namespace["metadata"]["labels"].clone());
        hook.namespaces.match_labels(&labels.unwrap_or_default())
    }

    fn request(&self, write: &Write<'_>, new: Option<&Value>) -> Value {
        let (route, resource) = (write.route, write.route.resource);
        let kind = match route.subresource.as_str() {
            "binding" => "Binding",
            _ => resource.kind,
        };
        let kind = json!({"group": resource.group, "version": resource.version, "kind": kind});
        let plural = json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
        let name = new
            .and_then(|object| object["metadata"]["name"].as_str())
            .unwrap_or(&route.name);
        let mut request = json!({
            "uid": self.store().uid(), "kind": kind, "resource": plural,
            "requestKind": kind, "requestResource": plural, "name": name, "operation": write.operation,
            "userInfo": {"username": write.user.name, "groups": write.user.groups},
            "object": new, "oldObject": write.old.map(|old| &**old),
            "dryRun": route.parameter("dryRun") == "All", "options": null,
        });
        if !route.subresource.is_empty() {
            request["subResource"] = route.subresource.as_str().into();
            request["requestSubResource"] = route.subresource.as_str().into();
        }
        if resource.namespaced {
            request["namespace"] = route.namespace.as_str().into();
        }
        request
    }
}
