//! Reviews are authenticated by a secret path.

use crate::{
    certificates::visitor::Visitor,
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

mod published;
mod rotation;
mod strangers;

/// The Secret that holds the path.
const SECRET: &str = "volume-warden-serving";

/// Reads the path from the Secret.
async fn path_secret(cluster: &Cluster) -> Result<Option<String>> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), "volume-warden");
    let data = secrets.get(SECRET).await?.data.unwrap_or_default();
    let path = data.get("path").map(|path| path.0.clone());
    Ok(path.map(String::from_utf8).transpose()?)
}

/// The path and the caBundle of each webhook, by its name.
async fn published(cluster: &Cluster) -> Result<BTreeMap<String, (Value, Value)>> {
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

/// The hook that the webhook of this name calls.
fn hook(webhook: &str) -> Result<String> {
    let name = webhook.strip_suffix(".volume-warden.dev");
    let (hook, component) = name
        .and_then(|name| name.split_once('.'))
        .context("a name")?;
    Ok(format!("/{component}/{hook}"))
}

/// Waits until every webhook has this installation's path.
pub async fn all_published(cluster: &Cluster) -> Result<BTreeMap<String, (Value, Value)>> {
    eventually_within(
        crate::certificates::PATIENCE,
        "every path is published",
        async || {
            let (published, secret) = (published(cluster).await?, path_secret(cluster).await?);
            let secret = secret.context("no path yet")?;
            for (webhook, (path, bundle)) in &published {
                let wanted = format!("/{secret}{}", hook(webhook)?);
                ensure!(*path == wanted, "the path of {webhook} is not published");
                ensure!(bundle.is_string(), "{webhook} has no caBundle");
            }
            ensure!(published.len() > 9, "{} webhooks", published.len());
            anyhow::Ok(Some(published))
        },
    )
    .await
}

fn visitor(cluster: &Cluster) -> Visitor {
    Visitor::new(cluster.client())
}
