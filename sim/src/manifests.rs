//! The shipped webhook configurations, as they are installed in each simulated cluster.

use crate::{conditions, json::text};
use bytes::Bytes;
use serde_json::Value;
use std::sync::OnceLock;

/// The manifest of all components. Some components add conditions to the webhooks of others, so
/// that the API server calls one webhook for a claim.
const INSTALLED: &str = include_str!("../../manifests/install.yaml");
/// The webhooks of the binding guard, which is not enabled by default.
const BINDING_GUARD: &str =
    include_str!("../../manifests/components/pvc-protection-binding-guard/webhooks.yaml");

/// A webhook configuration: the path of its collection, and its JSON.
pub type Configuration = (String, Bytes);

/// Returns the webhook configurations of all components.
///
/// # Errors
/// When a file cannot be parsed, or has a match condition that `conditions` does not have.
pub fn webhook_configurations() -> anyhow::Result<&'static [Configuration]> {
    static ALL: OnceLock<Vec<Configuration>> = OnceLock::new();
    if let Some(all) = ALL.get() {
        return Ok(all);
    }
    let documents = [INSTALLED, BINDING_GUARD].into_iter();
    let documents = documents.flat_map(|file| file.split("\n---\n"));
    let is_configuration = |document: &&str| {
        let mut lines = document.lines();
        lines.any(|line| line.starts_with("kind: ") && line.ends_with("WebhookConfiguration"))
    };
    let documents = documents.filter(is_configuration);
    let all = documents.map(parse).collect::<anyhow::Result<_>>()?;
    Ok(ALL.get_or_init(|| all))
}

fn parse(document: &str) -> anyhow::Result<Configuration> {
    let mut configuration: Value = serde_saphyr::from_str(document)?;
    let webhooks = configuration["webhooks"].as_array_mut();
    for webhook in webhooks.into_iter().flatten() {
        let conditions = webhook["matchConditions"].as_array_mut();
        for expression in conditions
            .into_iter()
            .flatten()
            .map(|each| &mut each["expression"])
        {
            let words = expression.as_str().unwrap_or_default().split_whitespace();
            let words = words.collect::<Vec<_>>().join(" ");
            let known = conditions::holds(&words, &Value::Null).is_some();
            anyhow::ensure!(known, "the simulation does not know the condition {words}");
            *expression = words.into();
        }
    }
    let kind = text(&configuration, "/kind").to_lowercase();
    let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}s");
    Ok((path, serde_json::to_vec(&configuration)?.into()))
}

/// Returns the path of the router to which the API server sends the reviews of a webhook: the
/// webhook `claims.pvc-protection.volume-warden.dev` has the path `/pvc-protection/claims`.
pub fn path(webhook: &str) -> String {
    let mut parts = webhook.split('.');
    let (hook, component) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    format!("/{component}/{hook}")
}
