//! The shipped webhook configurations, as they are installed in each simulated cluster.

use crate::conditions;
use serde_json::Value;
use std::sync::OnceLock;

const FILES: [&str; 7] = [
    include_str!("../../manifests/components/pvc-protection/webhooks.yaml"),
    include_str!("../../manifests/components/pvc-protection-binding-guard/webhooks.yaml"),
    include_str!("../../manifests/components/pv-protection/webhooks.yaml"),
    include_str!("../../manifests/components/pvc-retention/webhooks.yaml"),
    include_str!("../../manifests/components/pvc-provisioner/webhooks.yaml"),
    include_str!("../../manifests/components/pv-releaser/webhooks.yaml"),
    include_str!("../../manifests/components/pvc-trash/webhooks.yaml"),
];

/// Returns the webhook configurations of all components.
///
/// # Errors
/// When a file cannot be parsed, or has a match condition that the simulation does not know.
pub fn webhook_configurations() -> anyhow::Result<&'static [Value]> {
    static ALL: OnceLock<Vec<Value>> = OnceLock::new();
    if let Some(all) = ALL.get() {
        return Ok(all);
    }
    let documents = FILES.iter().flat_map(|file| file.split("\n---\n"));
    let all = documents.map(parse).collect::<anyhow::Result<_>>()?;
    Ok(ALL.get_or_init(|| all))
}

fn parse(document: &str) -> anyhow::Result<Value> {
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
            let text = words.collect::<Vec<_>>().join(" ");
            let known = conditions::holds(&text, &Value::Null).is_some();
            anyhow::ensure!(known, "the simulation does not know the condition {text}");
            *expression = text.into();
        }
    }
    Ok(configuration)
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
