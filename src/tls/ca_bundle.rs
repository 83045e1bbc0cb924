//! The caBundle of our webhook configurations. Everything else in them belongs to whoever installed them.

use crate::cluster::{UNHURRIED, within};
use futures::future::join_all;
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
use std::collections::BTreeMap;

/// A webhook configuration of ours, by name. One that is not installed is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Configuration {
    /// `MutatingWebhookConfiguration`
    Mutating(&'static str),
    /// `ValidatingWebhookConfiguration`
    Validating(&'static str),
}

impl Configuration {
    /// The same in every installation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutating(name) | Self::Validating(name) => name,
        }
    }

    /// Its kind.
    pub fn resource(self) -> ApiResource {
        match self {
            Self::Mutating(_) => ApiResource::erase::<MutatingWebhookConfiguration>(&()),
            Self::Validating(_) => ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
        }
    }

    fn api(self, client: &Client) -> Api<DynamicObject> {
        Api::all_with(client.clone(), &self.resource())
    }
}

/// Our webhook configurations in the API server.
pub(super) struct Configurations {
    client: Client,
    wanted: Vec<Configuration>,
    /// What was said last of each that could not be read.
    unread: BTreeMap<Configuration, String>,
}

impl Configurations {
    pub(super) fn new(client: Client, wanted: Vec<Configuration>) -> Self {
        Self {
            client,
            wanted,
            unread: BTreeMap::new(),
        }
    }

    /// Those that are there and may be read. Of the others the log tells, once.
    ///
    /// # Errors
    /// When the API server could not say.
    pub(super) async fn read(&mut self) -> kube::Result<Vec<Found>> {
        let reads = self.wanted.iter().map(|configuration| {
            let api = configuration.api(&self.client);
            async move { within(UNHURRIED, api.get(configuration.name())).await }
        });
        let mut found = Vec::new();
        for (configuration, read) in self.wanted.iter().zip(join_all(reads).await) {
            let why = match read {
                Ok(object) => {
                    self.unread.remove(configuration);
                    found.push(Found {
                        configuration: *configuration,
                        object,
                    });
                    continue;
                }
                Err(kube::Error::Api(status)) if status.code == 404 => "it is not there".to_owned(),
                Err(kube::Error::Api(status)) if status.code == 403 => status.message,
                Err(error) => return Err(error),
            };
            if self.unread.get(configuration) != Some(&why) {
                let configuration = configuration.name();
                tracing::info!(configuration, why, "webhook configuration left out");
            }
            self.unread.insert(*configuration, why);
        }
        Ok(found)
    }

    /// Makes every webhook of what was found trust `bundle` (PEM), unless it was changed since.
    ///
    /// # Errors
    /// When one cannot be written, or was changed by somebody else. The others are written all the same.
    pub(super) async fn publish(&self, found: &mut [Found], bundle: &str) -> kube::Result<()> {
        let writes = found
            .iter_mut()
            .map(|found| found.publish(&self.client, bundle));
        join_all(writes).await.into_iter().collect()
    }
}

/// A configuration as it was read.
pub(super) struct Found {
    pub(super) configuration: Configuration,
    pub(super) object: DynamicObject,
}

/// What the API server knows of a webhook's server.
pub(super) struct Called {
    pub(super) webhook: String,
    /// The name that it asks for; nothing where the webhook is called by URL.
    pub(super) host: Option<String>,
    /// PEM.
    pub(super) bundle: String,
}

impl Found {
    fn webhooks(&self) -> &[Value] {
        let webhooks = self.object.data.get("webhooks").and_then(Value::as_array);
        webhooks.map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn called(&self) -> impl Iterator<Item = Called> {
        self.webhooks().iter().map(|webhook| {
            let config = &webhook["clientConfig"];
            let (name, namespace) = (&config["service"]["name"], &config["service"]["namespace"]);
            let host = name.as_str().zip(namespace.as_str());
            Called {
                webhook: webhook["name"].as_str().unwrap_or_default().to_owned(),
                host: host.map(|(name, namespace)| format!("{name}.{namespace}.svc")),
                bundle: decoded(&config["caBundle"]),
            }
        })
    }

    /// Whether all its webhooks trust this and nothing else.
    pub(super) fn has(&self, bundle: &str) -> bool {
        self.called().all(|called| called.bundle == bundle)
    }

    async fn publish(&mut self, client: &Client, bundle: &str) -> kube::Result<()> {
        let operations = self.operations(bundle);
        if operations.len() > 1 {
            let patch = kube::api::Patch::<()>::Json(Patch(operations));
            let (api, name) = (self.configuration.api(client), self.configuration.name());
            let parameters = PatchParams::default();
            self.object = within(UNHURRIED, api.patch(name, &parameters, &patch)).await?;
            tracing::info!(configuration = name, "caBundle published");
        }
        Ok(())
    }

    /// A test that nobody else wrote meanwhile, then one operation per webhook with another caBundle.
    fn operations(&self, bundle: &str) -> Vec<PatchOperation> {
        let wanted = json!(ByteString(bundle.as_bytes().to_vec()));
        let webhooks = self.webhooks().iter().enumerate();
        let differing =
            webhooks.filter(|(_, webhook)| webhook["clientConfig"]["caBundle"] != wanted);
        let test = PatchOperation::Test(TestOperation {
            path: PointerBuf::from_tokens(["metadata", "resourceVersion"]),
            value: json!(self.object.metadata.resource_version),
        });
        let add = |index: usize| {
            let index = index.to_string();
            PatchOperation::Add(AddOperation {
                path: PointerBuf::from_tokens(["webhooks", &index, "clientConfig", "caBundle"]),
                value: wanted.clone(),
            })
        };
        std::iter::once(test)
            .chain(differing.map(|(index, _)| add(index)))
            .collect()
    }
}

/// Base64, as in JSON; nothing where there is nothing, or no text.
fn decoded(bundle: &Value) -> String {
    let bytes = serde_json::from_value::<ByteString>(bundle.clone());
    let text = bytes.map(|bytes| String::from_utf8(bytes.0));
    text.ok().and_then(Result::ok).unwrap_or_default()
}
