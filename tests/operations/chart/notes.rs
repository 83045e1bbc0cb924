//! The notes that Helm prints after an installation.

use super::{ValuesFile, chart, template_with};
use crate::{
    documentation::pages::{own_addresses, problem},
    support::repository,
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volume_warden_controlplane::Helm;

const NAMESPACE: &str = "volume-warden";
const SECRET: &str = "volume-warden-tls";

/// The notes for these values. Helm prints them without a cluster.
async fn notes(values: &Value) -> Result<String> {
    let (chart, values) = (chart().display().to_string(), ValuesFile::new(values)?);
    let path = values.path();
    let install = ["install", "any", &chart, "--namespace", NAMESPACE];
    let options = ["--values", &path, "--dry-run=client"];
    let helm = Helm::locate().await?;
    let printed = helm.run(&[&install[..], &options].concat()).await?;
    let (_, notes) = printed.split_once("\nNOTES:\n").context("no notes")?;
    Ok(notes.to_owned())
}

/// Each address in the notes is that of a page that exists and, if it has an anchor, of a heading
/// that exists. The notes name no section in another way.
#[tokio::test]
async fn the_notes_name_pages_that_exist() -> Result<()> {
    let page = repository().join("README.md");
    for values in [
        json!({}),
        json!({"dryRun": true, "onlyProtection": true, "hostNetwork": true}),
        json!({"tls": {"mode": "certManager"}}),
        json!({"tls": {"mode": "secret"}, "namespaceGc": {"storageBackend": "directory"}}),
        json!({"metricsAuthorization": {"enabled": true}}),
    ] {
        let notes = notes(&values).await?;
        let addresses = own_addresses(&notes);
        ensure!(
            addresses.iter().any(|each| each.ends_with("/uninstall.md")),
            "{notes}"
        );
        for address in addresses {
            let problem = problem(&page, address);
            ensure!(problem.is_none(), "{address}: {problem:?}");
        }
        ensure!(!notes.contains("README") && !notes.contains('"'), "{notes}");
    }
    Ok(())
}

/// The notes state that `helm uninstall` deletes the Secret of the certificate. This is true,
/// because the Secret is part of the release and has no annotation that makes Helm keep it.
#[tokio::test]
async fn the_notes_say_what_becomes_of_the_certificate() -> Result<()> {
    let notes = notes(&json!({})).await?;
    let sentence = format!("{SECRET}, which is part of this release: `helm uninstall` deletes it.");
    ensure!(notes.contains(&sentence), "{notes}");
    let text = template_with(&json!({}), NAMESPACE, &["--skip-tests"]).await?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text)?;
    let mut secrets = objects.iter().filter(|each| each["kind"] == "Secret");
    let secret = secrets.find(|each| each["metadata"]["name"] == SECRET);
    let metadata = &secret.context("no Secret")?["metadata"];
    ensure!(metadata["annotations"].is_null(), "{metadata}");
    Ok(())
}
