//! The webhooks of the configurations, and the writes that their rules match.

use crate::{
    review::Write,
    selectors::Selectors,
    store::{Store, resource},
    strategy::array,
};
use serde_json::Value;
use std::time::Duration;

/// A webhook of a configuration.
pub(crate) struct Hook {
    pub(crate) mutating: bool,
    pub(crate) configuration: String,
    pub(crate) name: String,
    pub(crate) fails_open: bool,
    pub(crate) timeout: Duration,
    pub(crate) conditions: Vec<String>,
    pub(crate) namespaces: Selectors,
    pub(crate) objects: Selectors,
    rules: Vec<Rule>,
    pub(crate) client_config: Value,
}

/// A rule of a webhook: which operations on which resources it names. `*` is any.
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    /// Whether the resource has to be namespaced, or must not be.
    namespaced: Option<bool>,
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
            rules: array(webhook, "/rules").iter().map(Rule::new).collect(),
            client_config: webhook["clientConfig"].clone(),
        }
    }

    /// Whether a rule of the webhook names the operation and the resource.
    pub(crate) fn rules_match(&self, write: &Write<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(write))
    }
}

impl Rule {
    fn new(rule: &Value) -> Self {
        let texts = |field: &str| {
            let texts = rule[field].as_array().into_iter().flatten();
            texts
                .filter_map(|each| Some(each.as_str()?.to_owned()))
                .collect()
        };
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            namespaced: match rule["scope"].as_str() {
                Some("Cluster") => Some(false),
                Some("Namespaced") => Some(true),
                _ => None,
            },
        }
    }

    fn matches(&self, write: &Write<'_>) -> bool {
        let (resource, subresource) = (write.route.resource, &*write.route.subresource);
        let has =
            |values: &[String], value: &str| values.iter().any(|each| each == "*" || each == value);
        let is_named = |each: &String| {
            let (plural, below) = each.split_once('/').unwrap_or((each, ""));
            each == "*" || (plural == resource.plural && below == subresource)
        };
        has(&self.operations, write.operation)
            && has(&self.groups, resource.group)
            && has(&self.versions, resource.version)
            && self.resources.iter().any(is_named)
            && self
                .namespaced
                .is_none_or(|only| only == resource.namespaced)
    }
}
