//! Publishes the CA certificates in the `caBundle` of the webhook configurations.

use crate::cluster::{Configurations, StoredConfiguration};
use futures::future::join_all;
use json_patch::{AddOperation, PatchOperation, TestOperation, jsonptr::PointerBuf};
use k8s_openapi::ByteString;
use kube::Client;
use serde_json::json;

/// Writes `bundle` (PEM) into the caBundle of every webhook that was found. A configuration is not
/// written if another writer has replaced such a webhook, or a caBundle that it had, since it was
/// read.
///
/// # Errors
/// When a configuration cannot be written, also for that reason. The other configurations are still
/// written.
pub(super) async fn publish(
    client: &Client,
    found: &mut [StoredConfiguration],
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
pub(super) fn is_published(found: &StoredConfiguration, bundle: &str) -> bool {
    found.webhooks().all(|webhook| webhook.bundle() == bundle)
}

/// Returns the JSON patch that publishes `bundle` in each webhook with another caBundle. Each
/// change follows `test` operations which ensure that the webhook still has the same index, name
/// and, if it had one, caBundle. Other changes of the configuration do not matter: at the first
/// start, the path of the webhooks is published at the same time.
fn operations(found: &StoredConfiguration, bundle: &str) -> Vec<PatchOperation> {
    let wanted = json!(ByteString(bundle.as_bytes().to_vec()));
    let mut operations = Vec::new();
    for webhook in found.webhooks() {
        let present = &webhook.client_config["caBundle"];
        if *present == wanted {
            continue;
        }
        let index = webhook.index.to_string();
        let at = |tokens: &[&str]| {
            let webhook = ["webhooks", &index].into_iter();
            PointerBuf::from_tokens(webhook.chain(tokens.iter().copied()))
        };
        let test = |path, value| PatchOperation::Test(TestOperation { path, value });
        let path = at(&["clientConfig", "caBundle"]);
        operations.push(test(at(&["name"]), json!(webhook.name)));
        if !present.is_null() {
            operations.push(test(path.clone(), present.clone()));
        }
        let value = wanted.clone();
        operations.push(PatchOperation::Add(AddOperation { path, value }));
    }
    operations
}
