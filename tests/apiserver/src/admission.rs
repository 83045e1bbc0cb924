//! Admission webhooks and policies.

use crate::{
    hooks::Hook,
    review::{Write, review_of},
    server::{ApiServer, Attempt},
    status::{Answer, Failure},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures::future::BoxFuture;
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// Delivers the reviews of webhooks.
pub trait Admission: Send + Sync {
    /// Sends a review and returns the answer, an AdmissionReview. The implementation must return
    /// within the timeout of the call.
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
    /// The `clientConfig` of the webhook in the configuration.
    pub client_config: &'a Value,
    /// The timeout of the call.
    pub timeout: Duration,
    /// The AdmissionReview.
    pub review: &'a Value,
}

impl ApiServer {
    /// The webhooks to call: none if nothing delivers their reviews.
    fn hooks(&self) -> Arc<Vec<Hook>> {
        match self.outside().admission {
            Some(_) => self.store().hooks(),
            None => Arc::default(),
        }
    }

    /// Calls the mutating webhooks, one after another. Returns the resulting object, and whether
    /// one of them patched it.
    pub(crate) async fn mutated(
        &self,
        write: &Write<'_>,
        object: Value,
        warnings: &mut Vec<String>,
    ) -> Answer<(Value, bool)> {
        let hooks = self.hooks();
        let (mut object, mut patched) = (object, false);
        let mut review = None;
        for hook in hooks
            .iter()
            .filter(|hook| hook.mutating && hook.rules_match(write))
        {
            let call = self.call(hook, write, Some(&object), &mut review, warnings);
            let Some(answer) = call.await? else {
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
            (review, patched) = (None, true);
        }
        Ok((object, patched))
    }

    /// Evaluates the policy and calls the validating webhooks. `new` is the object after the write.
    pub(crate) async fn validated(
        &self,
        write: &Write<'_>,
        new: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Answer<()> {
        let (policy, hooks) = (self.outside().policy, self.hooks());
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
            policy(&attempt).map_err(|why| {
                if why.starts_with("exceeded quota") {
                    Failure::forbidden(route.resource, &route.name, &why)
                } else {
                    Failure::invalid(route.resource, &route.name, "", &why)
                }
            })?;
        }
        let mut review = None;
        for hook in hooks
            .iter()
            .filter(|hook| !hook.mutating && hook.rules_match(write))
        {
            self.call(hook, write, new, &mut review, warnings).await?;
        }
        Ok(())
    }

    /// Calls one webhook if it matches the write. Returns its answer, or nothing if it was not
    /// called or failed open. `review` is the AdmissionReview of an earlier webhook for the same
    /// object: only its uid differs.
    async fn call(
        &self,
        hook: &Hook,
        write: &Write<'_>,
        new: Option<&Value>,
        review: &mut Option<Value>,
        warnings: &mut Vec<String>,
    ) -> Answer<Option<Value>> {
        let Some(admission) = self.outside().admission else {
            return Ok(None);
        };
        if !self.selected(hook, write, new) {
            return Ok(None);
        }
        let review = review.get_or_insert_with(|| review_of(write, new));
        review["request"]["uid"] = self.store().uid().into();
        let failed = |why: String| {
            if hook.fails_open {
                Ok(None)
            } else {
                Err(Failure::internal(format!(
                    "Internal error occurred: failed calling webhook {:?}: {why}",
                    hook.name
                )))
            }
        };
        for condition in &hook.conditions {
            match admission.condition(condition, &review["request"]) {
                Some(true) => {}
                Some(false) => return Ok(None),
                None => return failed("its match conditions cannot be evaluated".into()),
            }
        }
        let call = WebhookCall {
            configuration: &hook.configuration,
            webhook: &hook.name,
            client_config: &hook.client_config,
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
        if response["allowed"] == true {
            Ok(Some(answer))
        } else {
            Err(Failure::denied(&hook.name, &response["status"]))
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
}
