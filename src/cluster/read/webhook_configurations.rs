//! The webhook configurations of the components. A running Volume Warden writes only `caBundle`,
//! `path` and an annotation in them; the installer owns all other fields. `drain` deletes them.

use crate::cluster::api::{DEFAULT_CALL_TIMEOUT, is_absent, within};
use futures::future::join_all;
use json_patch::{Patch, PatchOperation};
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
use std::{collections::BTreeMap, fmt};

/// A webhook configuration by kind and name. The names are the same in every installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Configuration {
    /// The `MutatingWebhookConfiguration` of this name.
    Mutating(&'static str),
    /// The `ValidatingWebhookConfiguration` of this name.
    Validating(&'static str),
}

impl Configuration {
    /// Returns the `metadata.name` of the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutating(name) | Self::Validating(name) => name,
        }
    }

    /// Returns the API resource of the configuration's kind.
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

/// The Service in front of the webhook server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceName {
    /// The `metadata.namespace` of the Service.
    pub namespace: String,
    /// The `metadata.name` of the Service.
    pub name: String,
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Reads and patches the webhook configurations, and remembers what it logged about them.
pub struct Configurations {
    client: Client,
    wanted: Vec<Configuration>,
    service: ServiceName,
    /// The reason that was last logged for each ignored configuration.
    left_out: BTreeMap<Configuration, String>,
    forbidden: bool,
    incomplete: bool,
}

impl Configurations {
    /// Creates a reader of these configurations. Only their webhooks that call `service` count.
    pub fn new(client: Client, wanted: Vec<Configuration>, service: ServiceName) -> Self {
        Self {
            client,
            wanted,
            service,
            left_out: BTreeMap::new(),
            forbidden: false,
            incomplete: false,
        }
    }

    /// Returns whether the API server answered 403 for every one of the configurations in the last
    /// [`Self::read`].
    pub fn are_forbidden(&self) -> bool {
        self.forbidden
    }

    /// Returns whether the API server answered 403 for any of the configurations in the last
    /// [`Self::read`], so that nothing is known about its webhooks.
    pub fn are_incomplete(&self) -> bool {
        self.incomplete
    }

    /// Reads the configurations that exist, may be read and have a webhook that calls the Service.
    /// Each other configuration is logged, again only if the reason changes.
    ///
    /// # Errors
    /// When the API server does not answer, or reports an error other than 403 or that a
    /// configuration does not exist.
    pub async fn read(&mut self) -> kube::Result<Vec<StoredConfiguration>> {
        let reads = self.wanted.iter().map(|configuration| {
            let api = configuration.api(&self.client);
            async move { within(DEFAULT_CALL_TIMEOUT, api.get(configuration.name())).await }
        });
        let mut found = Vec::new();
        let reads = join_all(reads).await;
        self.forbidden = reads.iter().all(is_forbidden);
        self.incomplete = reads.iter().any(is_forbidden);
        for (configuration, read) in self.wanted.clone().into_iter().zip(reads) {
            let why = match read {
                Ok(object) => {
                    let each = StoredConfiguration {
                        configuration,
                        service: self.service.clone(),
                        object,
                    };
                    if each.webhooks().next().is_some() {
                        self.left_out.remove(&configuration);
                        found.push(each);
                        continue;
                    }
                    format!("none of its webhooks calls the Service {}", self.service)
                }
                Err(error) if is_absent(&error) => {
                    "the webhook configuration does not exist".to_owned()
                }
                Err(kube::Error::Api(status)) if status.code == 403 => status.message,
                Err(error) => return Err(error),
            };
            self.leave_out(configuration, why);
        }
        Ok(found)
    }

    fn leave_out(&mut self, configuration: Configuration, why: String) {
        if self.left_out.get(&configuration) != Some(&why) {
            let configuration = configuration.name();
            tracing::info!(
                configuration,
                why,
                "Volume Warden neither checks nor changes this \
                webhook configuration"
            );
        }
        self.left_out.insert(configuration, why);
    }

    /// Patches the configuration, and updates `found` to the result. Without operations it does
    /// nothing.
    ///
    /// # Errors
    /// When the API server rejects the patch, for example because a `test` operation fails, or
    /// does not answer.
    pub async fn patch(
        client: &Client,
        found: &mut StoredConfiguration,
        operations: Vec<PatchOperation>,
    ) -> kube::Result<()> {
        if operations.is_empty() {
            return Ok(());
        }
        write(client, found, kube::api::Patch::Json(Patch(operations))).await
    }

    /// Sets an annotation of the configuration, and updates `found` to the result.
    ///
    /// # Errors
    /// When the API server rejects the patch or does not answer.
    pub async fn annotate(
        client: &Client,
        found: &mut StoredConfiguration,
        key: &str,
        value: &str,
    ) -> kube::Result<()> {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        write(client, found, kube::api::Patch::Merge(patch)).await
    }

    /// Returns the client, for [`Self::patch`].
    pub fn client(&self) -> &Client {
        &self.client
    }
}

async fn write(
    client: &Client,
    found: &mut StoredConfiguration,
    patch: kube::api::Patch<Value>,
) -> kube::Result<()> {
    let (api, name) = (found.configuration.api(client), found.configuration.name());
    let parameters = PatchParams::default();
    found.object = within(DEFAULT_CALL_TIMEOUT, api.patch(name, &parameters, &patch)).await?;
    Ok(())
}

/// Returns whether the API server answered 403.
pub fn is_forbidden<T>(answer: &kube::Result<T>) -> bool {
    matches!(answer, Err(kube::Error::Api(status)) if status.code == 403)
}

/// A webhook configuration as it was last read or patched.
pub struct StoredConfiguration {
    /// The kind and name of the configuration.
    pub configuration: Configuration,
    pub(crate) service: ServiceName,
    /// The whole object, from which the patches are computed.
    pub object: DynamicObject,
}

/// A webhook of a [`StoredConfiguration`] that calls the Service of this installation.
#[derive(Clone, Copy)]
pub struct Webhook<'a> {
    /// The index of the webhook in `webhooks`.
    pub index: usize,
    /// The `name` of the webhook.
    pub name: &'a str,
    /// The `clientConfig` of the webhook.
    pub client_config: &'a Value,
    /// Whether the webhook's `failurePolicy` is `Fail`. When a call fails, the API server then
    /// refuses the reviewed request, with a message that contains the path of the webhook.
    pub fails_closed: bool,
}

impl Webhook<'_> {
    /// Returns the PEM certificates in `caBundle`; empty if it is absent or unreadable.
    pub fn bundle(&self) -> String {
        let bundle = self.client_config["caBundle"].clone();
        let bytes = serde_json::from_value::<ByteString>(bundle);
        let text = bytes.map(|bytes| String::from_utf8(bytes.0));
        text.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// Returns the `clientConfig.service.path` of the webhook.
    pub fn path(&self) -> Option<&str> {
        self.client_config["service"]["path"].as_str()
    }
}

impl StoredConfiguration {
    /// Returns the webhooks that call the Service of this installation. A webhook that calls a URL
    /// or another Service belongs to another installation.
    pub fn webhooks(&self) -> impl Iterator<Item = Webhook<'_>> {
        let webhooks = self.object.data.get("webhooks").and_then(Value::as_array);
        let webhooks = webhooks.map(Vec::as_slice).unwrap_or_default();
        let webhooks = webhooks.iter().enumerate();
        webhooks.filter_map(|(index, webhook)| {
            let (name, client_config) = (&webhook["name"], &webhook["clientConfig"]);
            let called = &client_config["service"];
            let calls_it = called["name"] == *self.service.name
                && called["namespace"] == *self.service.namespace;
            calls_it.then(|| Webhook {
                index,
                name: name.as_str().unwrap_or_default(),
                client_config,
                fails_closed: webhook["failurePolicy"] == "Fail",
            })
        })
    }

    /// Returns the DNS name that the API server expects in the serving certificate.
    pub fn host(&self) -> String {
        format!("{}.{}.svc", self.service.name, self.service.namespace)
    }
}
