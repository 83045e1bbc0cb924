//! Webhook timeouts for tests.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use volume_warden_controlplane::Cluster;

/// The maximum timeout that the API server accepts.
const LONGEST: u32 = 30;

/// Gives every webhook except this one the longest timeout, for tests of the answer rather than of
/// its latency. Applying the manifests again undoes it.
pub async fn wait_for_webhooks(cluster: &Cluster, except: Option<&str>) -> Result<()> {
    for kind in [
        "mutatingwebhookconfiguration",
        "validatingwebhookconfiguration",
    ] {
        let configurations = cluster.kubectl(&["get", kind, "-o", "json"]).await?;
        let configurations: Value = serde_json::from_str(&configurations)?;
        let items = configurations["items"].as_array().context("a list")?;
        for configuration in items {
            let name = configuration["metadata"]["name"].as_str();
            let name = name.filter(|name| name.starts_with("volume-warden"));
            if let Some(name) = name {
                let patch = patch(&configuration["webhooks"], except).to_string();
                let patch = ["patch", kind, name, "--type=json", "-p", &patch];
                cluster.kubectl(&patch).await?;
            }
        }
    }
    Ok(())
}

fn patch(webhooks: &Value, except: Option<&str>) -> Value {
    let webhooks = webhooks.as_array().into_iter().flatten().enumerate();
    let wanted = webhooks.filter(|(_, webhook)| except != webhook["name"].as_str());
    let operations = wanted.map(|(place, _)| {
        let path = format!("/webhooks/{place}/timeoutSeconds");
        json!({"op": "replace", "path": path, "value": LONGEST})
    });
    operations.collect()
}
