//! The webhooks of the manifests.

use crate::support::repository;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::{MatchCondition, MutatingWebhook};
use serde_json::Value;

/// A mutating or validating webhook of the manifests. Both use the type of mutating webhooks,
/// because validating webhooks have a subset of their fields.
pub struct Webhook {
    pub mutates: bool,
    pub spec: MutatingWebhook,
    /// The expressions of the match conditions, each in one line.
    conditions: Vec<String>,
}

impl Webhook {
    fn new(mutates: bool, spec: MutatingWebhook) -> Self {
        let one_line = |each: &MatchCondition| {
            let words: Vec<_> = each.expression.split_whitespace().collect();
            words.join(" ")
        };
        Self {
            mutates,
            conditions: spec
                .match_conditions
                .iter()
                .flatten()
                .map(one_line)
                .collect(),
            spec,
        }
    }

    /// The timeout of the webhook.
    pub fn seconds(&self) -> i32 {
        self.spec.timeout_seconds.unwrap_or(10)
    }

    /// The operations and resources for which the webhook is called.
    pub fn requests(&self) -> impl Iterator<Item = (&str, &str)> {
        let rules = self.spec.rules.iter().flatten();
        rules.flat_map(|rule| {
            let operations = rule.operations.iter().flatten();
            operations.flat_map(|operation| {
                let resources = rule.resources.iter().flatten();
                resources.map(|resource| (operation.as_str(), resource.as_str()))
            })
        })
    }

    /// The namespaces for which the webhook is never called.
    pub fn excluded_namespaces(&self) -> Vec<&str> {
        let selector = self.spec.namespace_selector.as_ref();
        let expressions = selector
            .iter()
            .flat_map(|each| each.match_expressions.iter().flatten());
        let not_in = expressions
            .filter(|each| each.key == "kubernetes.io/metadata.name" && each.operator == "NotIn");
        not_in
            .flat_map(|each| each.values.iter().flatten())
            .map(String::as_str)
            .collect()
    }

    /// Whether the match conditions of the two webhooks exclude each other.
    pub fn excludes(&self, other: &Self) -> bool {
        self.negates(other) || other.negates(self) || self.contradicts(other)
    }

    /// Whether the two webhooks require different values of the same expression.
    fn contradicts(&self, other: &Self) -> bool {
        let pairs = self
            .conditions
            .iter()
            .flat_map(|one| other.conditions.iter().map(move |other| (one, other)));
        let mut values =
            pairs.filter_map(|(one, other)| required_value(one).zip(required_value(other)));
        values.any(|((one, value), (other, another))| one == other && value != another)
    }

    /// Whether a match condition of this webhook is the negation of consecutive match conditions of
    /// the other one.
    fn negates(&self, other: &Self) -> bool {
        let indices = 0..other.conditions.len();
        let runs = indices
            .clone()
            .flat_map(|start| indices.clone().map(move |end| (start, end)));
        let runs = runs.filter(|(start, end)| start <= end);
        let mut negations =
            runs.map(|(start, end)| format!("!({})", other.conditions[start..=end].join(" && ")));
        negations.any(|negation| self.conditions.contains(&negation))
    }
}

/// The expression and the string of a match condition that compares them by `==`.
fn required_value(condition: &str) -> Option<(&str, &str)> {
    let (expression, value) = condition.split_once(" == ")?;
    let value = value.strip_prefix('"')?.strip_suffix('"')?;
    (!value.contains('"')).then_some((expression, value))
}

/// All webhooks of the default installation and of the component pvc-protection-binding-guard.
pub fn shipped() -> Result<Vec<Webhook>> {
    let mut webhooks = Vec::new();
    for file in [
        "install.yaml",
        "components/pvc-protection-binding-guard/webhooks.yaml",
    ] {
        let text = std::fs::read_to_string(repository().join("manifests").join(file))?;
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text)?;
        for mut document in documents {
            let kind = document["kind"].as_str().context("a kind")?.to_owned();
            if let Some(prefix) = kind.strip_suffix("WebhookConfiguration") {
                let specs: Vec<MutatingWebhook> =
                    serde_json::from_value(document["webhooks"].take())?;
                let mutates = prefix == "Mutating";
                webhooks.extend(specs.into_iter().map(|spec| Webhook::new(mutates, spec)));
            }
        }
    }
    ensure!(!webhooks.is_empty(), "the manifests have no webhooks");
    Ok(webhooks)
}
