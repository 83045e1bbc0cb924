//! Deletes the webhook configurations and restores them.

use anyhow::{Result, ensure};
use k8s_openapi::api::{
    admissionregistration::v1::MutatingWebhookConfiguration, core::v1::PersistentVolumeClaim,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use volume_warden_controlplane::eventually;

/// All mutating webhook configurations, with their CA. The validating ones have no rule for claims.
pub struct Switch {
    api: Api<MutatingWebhookConfiguration>,
    all: Vec<MutatingWebhookConfiguration>,
}

impl Switch {
    /// Reads the current configurations.
    pub async fn of(client: &Client) -> Result<Self> {
        let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let mut all = api.list(&ListParams::default()).await?.items;
        for configuration in &mut all {
            configuration.metadata.resource_version = None;
            configuration.metadata.uid = None;
        }
        Ok(Self { api, all })
    }

    /// Restores the webhook configurations if `on`, otherwise deletes them.
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

/// Waits until the API server calls the webhook for claims, or if not `there`, no longer calls it.
pub async fn probe(
    claims: &Api<PersistentVolumeClaim>,
    probe: PersistentVolumeClaim,
    there: bool,
) -> Result<()> {
    let parameters = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually("the API server applies the change", async || {
        let created = claims.create(&parameters, &probe).await?;
        ensure!(created.finalizers().is_empty() != there);
        Ok(())
    })
    .await
}
