//! The webhook configurations, taken away and brought back.

use anyhow::{Result, ensure};
use k8s_openapi::api::{
    admissionregistration::v1::MutatingWebhookConfiguration, core::v1::PersistentVolumeClaim,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use volume_warden_controlplane::eventually;

/// All that may change an object, with their CA. Those that only look at one have no rule for claims.
pub struct Switch {
    api: Api<MutatingWebhookConfiguration>,
    all: Vec<MutatingWebhookConfiguration>,
}

impl Switch {
    /// As they are now.
    pub async fn of(client: &Client) -> Result<Self> {
        let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let mut all = api.list(&ListParams::default()).await?.items;
        for configuration in &mut all {
            configuration.metadata.resource_version = None;
            configuration.metadata.uid = None;
        }
        Ok(Self { api, all })
    }

    /// On or off, wherever it stands.
    pub async fn turn(&self, on: bool) -> Result<()> {
        let (all, one) = (ListParams::default(), DeleteParams::default());
        self.api.delete_collection(&one, &all).await?;
        if on {
            for configuration in &self.all {
                let parameters = PostParams::default();
                self.api.create(&parameters, configuration).await?;
            }
        }
        Ok(())
    }
}

/// Waits until the API server has noticed whether there are webhooks.
pub async fn probe(
    claims: &Api<PersistentVolumeClaim>,
    probe: PersistentVolumeClaim,
    there: bool,
) -> Result<()> {
    let parameters = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually("the API server knows the webhooks", async || {
        let created = claims.create(&parameters, &probe).await?;
        ensure!(created.finalizers().is_empty() != there);
        Ok(())
    })
    .await
}
