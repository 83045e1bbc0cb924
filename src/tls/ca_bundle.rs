//! Publishes the CA certificates in the `caBundle` of the webhook configurations.

use crate::cluster::{Configurations, Found};
use futures::future::join_all;
use json_patch::{AddOperation, PatchOperation, TestOperation, jsonptr::PointerBuf};
use k8s_openapi::ByteString;
use kube::Client;
use serde_json::json;

/// Writes `bundle` (PEM) into the caBundle of every webhook that was found, unless its
/// configuration has changed since it was read.
///
/// # Errors
/// When a configuration cannot be written or has changed since it was read. The other
/// configurations are still written.
pub(super) async fn publish(
    client: &Client,
    found: &mut [Found],
    bundle: &str,
) -> kube::Result<()> {
    let writes = found.iter_mut().map(async |found| {
        let operations = operations(found, bundle);
        if operations.is_empty() {
            return Ok(());
        }
        let written = Configurations::patch(client, found, operations).await;
        if written.is_ok() {
            let configuration = found.configuration.name();
            tracing::info!(configuration, "caBundle published");
        }
        written
    });
    join_all(writes).await.into_iter().collect()
}

/// Returns whether the caBundle of every webhook of the configuration equals `bundle`.
pub(super) fn is_published(found: &Found, bundle: &str) -> bool {
    found.webhooks().all(|webhook| webhook.bundle() == bundle)
}

/// Returns a `test` that the configuration is unchanged, followed by one operation for each webhook
/// with another caBundle.
fn operations(found: &Found, bundle: &str) -> Vec<PatchOperation> {
    let wanted = json!(ByteString(bundle.as_bytes().to_vec()));
    let differing = found
        .webhooks()
        .filter(|webhook| webhook.client_config["caBundle"] != wanted);
    let mut operations: Vec<_> = differing
        .map(|webhook| {
            let index = webhook.index.to_string();
            PatchOperation::Add(AddOperation {
                path: PointerBuf::from_tokens(["webhooks", &index, "clientConfig", "caBundle"]),
                value: wanted.clone(),
            })
        })
        .collect();
    if !operations.is_empty() {
        let test = PatchOperation::Test(TestOperation {
            path: PointerBuf::from_tokens(["metadata", "resourceVersion"]),
            value: json!(found.object.metadata.resource_version),
        });
        operations.insert(0, test);
    }
    operations
}
