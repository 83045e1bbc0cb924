//! The upgrade from the chart of version 0.1.0, whose package is `volume-warden-0.1.0.tgz` in this
//! directory.

use super::{cluster::Release, template_with};
use crate::{
    fresh,
    install::as_deployed,
    support::{kustomization::NAMESPACE, repository, webhooks_answer},
    upgrade::rollback::deletion_commands,
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use volume_warden_controlplane::Helm;

/// The path of the package of the old chart.
fn old_chart() -> String {
    let package = repository().join("tests/operations/chart/volume-warden-0.1.0.tgz");
    package.display().to_string()
}

#[tokio::test]
async fn a_release_of_0_1_0_is_upgraded() -> Result<()> {
    let cluster = fresh::api_server().await?;
    cluster.kubectl(&["create", "namespace", NAMESPACE]).await?;
    let old = old_chart();
    let release = Release::new(&cluster, &json!({})).await?;
    release.run(&["install", "volume-warden", &old]).await?;

    let with_old_values = Release::new(&cluster, &json!({"replicas": 1})).await?;
    let refused = with_old_values.deploy("upgrade", &[]).await;
    let refused = format!("{:?}", refused.err());
    ensure!(
        refused.contains("replicas is now replicaCount"),
        "{refused}"
    );

    // `--take-ownership`: version 0.1.0 creates the Secret of the certificate at run time, and the
    // new chart contains that Secret.
    release.deploy("upgrade", &["--take-ownership"]).await?;
    let warden = as_deployed(&cluster, NAMESPACE).await?;
    webhooks_answer(&cluster.client()).await?;
    warden.stop().await?;
    // Volume Warden owns the published paths, so the rollback needs `--force-conflicts`.
    let rollback = ["rollback", "volume-warden", "1", "--force-conflicts"];
    release.run(&rollback).await?;
    Ok(())
}

/// The upgrade page deletes every object that version 0.1.0 does not have: `kubectl replace` keeps
/// these objects, unlike `helm rollback`. The two Secrets are not compared: Volume Warden writes
/// their content at run time, and the page deletes one of them by another command.
#[tokio::test]
async fn the_page_deletes_what_is_newer_than_0_1_0() -> Result<()> {
    let old = old_chart();
    let arguments = ["template", "any", &old, "--namespace", NAMESPACE];
    let old = kinds_and_names(&Helm::locate().await?.run(&arguments).await?)?;
    let optional = json!({"pvcExpiry": {"enabled": true}, "trashList": {"enabled": true}});
    let new = template_with(&optional, NAMESPACE, &["--skip-tests"]).await?;
    let mut added = kinds_and_names(&new)?;
    added.retain(|object| !old.contains(object) && object.0 != "secret");
    ensure!(added.len() > 20, "{added:?}");

    let commands = deletion_commands();
    let is_deleted = |(kind, name): &(String, String)| {
        commands.iter().any(|command| {
            let words: Vec<&str> = command.split([' ', ',']).collect();
            words.contains(&kind.as_str()) && words.contains(&name.as_str())
        })
    };
    let kept: Vec<_> = added.iter().filter(|each| !is_deleted(each)).collect();
    ensure!(kept.is_empty(), "not deleted: {kept:?}");
    Ok(())
}

/// The kind of each object in lower case, as `kubectl delete` accepts it, and the name.
fn kinds_and_names(manifests: &str) -> Result<BTreeSet<(String, String)>> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(manifests)?;
    let objects = objects.iter().filter(|object| object.is_object());
    let names = objects.map(|object| {
        let kind = object["kind"].as_str()?.to_lowercase();
        Some((kind, object["metadata"]["name"].as_str()?.to_owned()))
    });
    names
        .collect::<Option<_>>()
        .context("an object without a name")
}
