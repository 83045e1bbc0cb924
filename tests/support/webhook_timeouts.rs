//! Webhook timeouts for tests.

use super::webhook_configurations::configurations;
use anyhow::Result;
use serde_json::json;
use volume_warden_controlplane::Cluster;

/// The maximum timeout that the API server accepts.
const MAX_TIMEOUT_SECONDS: u32 = 30;

/// Sets the maximum timeout in every webhook except `except`, for tests of the answers rather than
/// of their latency. Applying the manifests again restores the timeouts.
pub async fn raise_webhook_timeouts(cluster: &Cluster, except: Option<&str>) -> Result<()> {
    let client = cluster.client();
    for configuration in configurations(&client).await? {
        let webhooks = configuration.webhooks().iter().enumerate();
        let wanted = webhooks.filter(|(_, webhook)| except != webhook["name"].as_str());
        let operations = wanted.map(|(place, _)| {
            let path = format!("/webhooks/{place}/timeoutSeconds");
            json!({"op": "replace", "path": path, "value": MAX_TIMEOUT_SECONDS})
        });
        let operations: Vec<_> = operations.collect();
        configuration.patch(&client, &operations).await?;
    }
    Ok(())
}
