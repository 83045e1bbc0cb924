//! The webhooks of the manifests.

use crate::support::repository;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::{MatchCondition, MutatingWebhook};
use serde_json::Value;

/// A webhook of the manifests. Validating webhooks have a subset of the fields of mutating
/// webhooks.
pub struct Webhook {
    pub mutates: bool,
    pub spec: MutatingWebhook,
    conditions: Vec<String>,
}

impl Webhook {
    fn new(mutates: bool, spec: MutatingWebhook) -> Self {
        let words = |each: &MatchCondition| {
            let words: Vec<_> = each.expression.split_whitespace().collect();
            words.join(" ")
        };
        Self {
            mutates,
            conditions: spec.match_conditions.iter().flatten().map(words).collect(),
            spec,
        }
    }

    pub fn seconds(&self) -> i32 {
        self.spec.timeout_seconds.unwrap_or(10)
    }

    /// The operations and resources that the webhook is called for.
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

    /// Namespaces that the webhook is never called for.
    pub fn spared(&self) -> Vec<&str> {
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
        self.denies(other) || other.denies(self) || self.contradicts(other)
    }

    /// Whether the two webhooks require different values of the same expression.
    fn contradicts(&self, other: &Self) -> bool {
        let pairs = self
            .conditions
            .iter()
            .flat_map(|one| other.conditions.iter().map(move |other| (one, other)));
        let mut values = pairs.filter_map(|(one, other)| required(one).zip(required(other)));
        values.any(|((one, value), (other, another))| one == other && value != another)
    }

    fn denies(&self, other: &Self) -> bool {
        let places = 0..other.conditions.len();
        let runs = places
            .clone()
            .flat_map(|start| places.clone().map(move |end| (start, end)));
        let runs = runs.filter(|(start, end)| start <= end);
        let mut together =
            runs.map(|(start, end)| format!("!({})", other.conditions[start..=end].join(" && ")));
        together.any(|denial| self.conditions.contains(&denial))
    }
}

/// The expression of a condition, and the one text that it must equal.
fn required(condition: &str) -> Option<(&str, &str)> {
    let (expression, value) = condition.split_once(" == ")?;
    let value = value.strip_prefix('"')?.strip_suffix('"')?;
    (!value.contains('"')).then_some((expression, value))
}

/// Every shipped webhook, with those of the default installation as rendered.
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
            if let Some(flavour) = kind.strip_suffix("WebhookConfiguration") {
                let specs: Vec<MutatingWebhook> =
                    serde_json::from_value(document["webhooks"].take())?;
                let mutates = flavour == "Mutating";
                webhooks.extend(specs.into_iter().map(|spec| Webhook::new(mutates, spec)));
            }
        }
    }
    ensure!(!webhooks.is_empty(), "the manifests have no webhooks");
    Ok(webhooks)
}
