//! The caBundle of our webhook configurations. Everything else in them belongs to whoever installed them.

use crate::cluster::within;
use json_patch::{AddOperation, Patch, PatchOperation, TestOperation, jsonptr::PointerBuf};
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
    },
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, PatchParams},
};
use serde_json::{Value, json};
use std::time::Duration;

const CALL_LIMIT: Duration = Duration::from_secs(10);

/// A webhook configuration of ours, by name. One that is not installed is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Configuration {
    /// `MutatingWebhookConfiguration`
    Mutating(&'static str),
    /// `ValidatingWebhookConfiguration`
    Validating(&'static str),
}

impl Configuration {
    fn name(self) -> &'static str {
        match self {
            Self::Mutating(name) | Self::Validating(name) => name,
        }
    }

    fn resource(self) -> ApiResource {
        match self {
            Self::Mutating(_) => ApiResource::erase::<MutatingWebhookConfiguration>(&()),
            Self::Validating(_) => ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
        }
    }
}

/// Makes every webhook of the configurations trust `bundle` (PEM).
///
/// # Errors
/// When a configuration cannot be read or written, or is changed by somebody else at the same moment.
pub async fn publish(
    client: &Client,
    configurations: &[Configuration],
    bundle: &str,
) -> kube::Result<()> {
    for configuration in configurations {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &configuration.resource());
        let Some(found) = within(CALL_LIMIT, api.get_opt(configuration.name())).await? else {
            continue;
        };
        let operations = operations(&found, bundle);
        if operations.len() > 1 {
            let patch = kube::api::Patch::<()>::Json(Patch(operations));
            within(
                CALL_LIMIT,
                api.patch(configuration.name(), &PatchParams::default(), &patch),
            )
            .await?;
            tracing::info!(configuration = configuration.name(), "caBundle published");
        }
    }
    Ok(())
}

/// A test that nobody else wrote meanwhile, then one operation per webhook with another caBundle.
fn operations(found: &DynamicObject, bundle: &str) -> Vec<PatchOperation> {
    let wanted = json!(ByteString(bundle.as_bytes().to_vec()));
    let webhooks = found
        .data
        .get("webhooks")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let differing = webhooks
        .iter()
        .enumerate()
        .filter(|(_, webhook)| webhook["clientConfig"]["caBundle"] != wanted);
    let version = json!(found.metadata.resource_version);
    let test = PatchOperation::Test(TestOperation {
        path: PointerBuf::from_tokens(["metadata", "resourceVersion"]),
        value: version,
    });
    let add = |index: usize| {
        let path =
            PointerBuf::from_tokens(["webhooks", &index.to_string(), "clientConfig", "caBundle"]);
        PatchOperation::Add(AddOperation {
            path,
            value: wanted.clone(),
        })
    };
    std::iter::once(test)
        .chain(differing.map(|(index, _)| add(index)))
        .collect()
}
