//! The secret path authenticates the API server.

use crate::{
    certificates::strict_client::StrictClient,
    fresh,
    support::{
        BINARY, claim, dry_run, repository,
        webhook_configurations::{Configuration, configurations},
        webhooks_answer,
    },
};
use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use volume_warden_controlplane::{Cluster, SecondApiserver, Warden, eventually, eventually_within};

pub(crate) mod published;
mod rotation;
mod unauthenticated;

/// The Secret that holds the path.
const SECRET: &str = "volume-warden-serving";

/// Reads the path from the Secret.
async fn secret_path(cluster: &Cluster) -> Result<Option<String>> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), "volume-warden");
    let data = secrets.get(SECRET).await?.data.unwrap_or_default();
    let path = data.get("path").map(|path| path.0.clone());
    Ok(path.map(String::from_utf8).transpose()?)
}

/// The path and the caBundle of each webhook, by the name of the webhook.
async fn client_configs(cluster: &Cluster) -> Result<BTreeMap<String, (Value, Value)>> {
    let configurations = configurations(&cluster.client()).await?;
    let webhooks = configurations.iter().flat_map(Configuration::webhooks);
    let webhooks = webhooks.map(|webhook| {
        let name = webhook["name"].as_str().unwrap_or_default().to_owned();
        let config = &webhook["clientConfig"];
        (
            name,
            (
                config["service"]["path"].clone(),
                config["caBundle"].clone(),
            ),
        )
    });
    Ok(webhooks.collect())
}

/// The path of the webhook with this name, without the secret prefix.
fn hook(webhook: &str) -> Result<String> {
    let name = webhook.strip_suffix(".volume-warden.dev");
    let (hook, component) = name
        .and_then(|name| name.split_once('.'))
        .context("a name")?;
    Ok(format!("/{component}/{hook}"))
}

/// Waits until every webhook has the path of this installation and a caBundle, and returns them.
pub async fn all_published(cluster: &Cluster) -> Result<BTreeMap<String, (Value, Value)>> {
    eventually_within(
        crate::certificates::TIMEOUT,
        "every path is published",
        async || {
            let (published, secret) = (client_configs(cluster).await?, secret_path(cluster).await?);
            let secret = secret.context("the Secret has no path")?;
            for (webhook, (path, bundle)) in &published {
                let expected = format!("/{secret}{}", hook(webhook)?);
                ensure!(*path == expected, "the path of {webhook} is not published");
                ensure!(bundle.is_string(), "{webhook} has no caBundle");
            }
            ensure!(published.len() > 9, "only {} webhooks", published.len());
            anyhow::Ok(Some(published))
        },
    )
    .await
}

fn strict_client(cluster: &Cluster) -> StrictClient {
    StrictClient::new(cluster.client())
}
