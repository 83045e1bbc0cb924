//! The webhook configurations of Volume Warden, read and patched without a process of kubectl.

use anyhow::{Context, Result};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::Value;

/// The API of a configuration's kind.
fn api(client: &Client, resource: &ApiResource) -> Api<DynamicObject> {
    Api::all_with(client.clone(), resource)
}

fn resources() -> [ApiResource; 2] {
    [
        ApiResource::erase::<MutatingWebhookConfiguration>(&()),
        ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
    ]
}

/// The configurations of both kinds whose names begin with `volume-warden`.
pub async fn configurations(client: &Client) -> Result<Vec<Configuration>> {
    let mut found = Vec::new();
    for resource in resources() {
        let list = api(client, &resource).list(&ListParams::default()).await?;
        for object in list.items {
            let object = serde_json::to_value(&object)?;
            let resource = resource.clone();
            found.push(Configuration { resource, object });
        }
    }
    found.retain(|each| {
        each.name()
            .is_ok_and(|name| name.starts_with("volume-warden"))
    });
    Ok(found)
}

/// A configuration as it was read.
pub struct Configuration {
    resource: ApiResource,
    /// The whole object.
    pub object: Value,
}

impl Configuration {
    pub fn name(&self) -> Result<&str> {
        let name = self.object["metadata"]["name"].as_str();
        name.context("a name")
    }

    pub fn webhooks(&self) -> &[Value] {
        let webhooks = self.object["webhooks"].as_array();
        webhooks.map(Vec::as_slice).unwrap_or_default()
    }

    /// Applies a JSON patch.
    pub async fn patch(&self, client: &Client, operations: &[Value]) -> Result<()> {
        let patch = serde_json::from_value(Value::Array(operations.to_vec()))?;
        let (name, patch) = (self.name()?, Patch::Json::<()>(patch));
        let parameters = PatchParams::default();
        let api = api(client, &self.resource);
        api.patch(name, &parameters, &patch).await?;
        Ok(())
    }
}
