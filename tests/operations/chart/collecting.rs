//! `volume-warden gc` in the pod uses the same settings as the server: the chart passes them as
//! environment variables of the container.

use super::{only, template};
use crate::support::{
    BINARY, bare,
    kustomization::{Kustomization, NAMESPACE},
    manifests::rendered,
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Command, Output},
};
use tempfile::TempDir;

type Variables = BTreeMap<String, String>;

/// The environment variables of the container in the Deployment of these manifests.
fn variables(manifests: &str) -> Result<Variables> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(manifests)?;
    let mut objects = objects.iter();
    let deployment = objects.find(|object| object["kind"] == "Deployment");
    let deployment = deployment.context("no Deployment")?;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let variables = container["env"].as_array().into_iter().flatten();
    let pair = |variable: &Value| {
        let part = |key| variable[key].as_str().map(str::to_owned);
        Some((part("name")?, part("value")?))
    };
    let variables = variables.map(|variable| pair(variable).with_context(|| variable.to_string()));
    variables.collect()
}

/// The environment variables that the chart sets for namespace-gc with a directory backend and
/// these additional values.
async fn chart_variables(values: &Value) -> Result<Variables> {
    let mut all = only(&["namespace-gc"]);
    let section = &mut all["namespaceGc"];
    section["storageBackend"] = json!("directory");
    json_patch::merge(section, values);
    variables(&template(&all, NAMESPACE).await?)
}

/// A directory backend with an entry for each of these namespaces, none of which exists in
/// Kubernetes.
fn root(namespaces: &[&str]) -> Result<TempDir> {
    let root = tempfile::tempdir()?;
    fs::write(root.path().join(".volume-warden-root"), "")?;
    for namespace in namespaces {
        fs::create_dir(root.path().join(namespace))?;
    }
    Ok(root)
}

/// Runs `gc --dry-run` as in the pod, but with `root` as the directory and with the API server of
/// the test.
async fn gc(variables: &Variables, root: &Path) -> Result<Output> {
    ensure!(variables.contains_key("VOLUME_WARDEN_DIRECTORY_ROOT"));
    let cluster = bare().await?;
    let mut command = Command::new(BINARY);
    command.args(["gc", "--dry-run", "--output=json"]);
    command.env_clear().envs(variables);
    command.env("VOLUME_WARDEN_DIRECTORY_ROOT", root);
    command.env("VOLUME_WARDEN_KUBECONFIG", cluster.kubeconfig());
    Ok(tokio::task::spawn_blocking(move || command.output()).await??)
}

/// The namespaces that `gc` would delete without `--dry-run`.
async fn would_delete(variables: &Variables, root: &Path) -> Result<BTreeSet<String>> {
    let output = gc(variables, root).await?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{variables:?}: {error}");
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let rows = report["namespaces"].as_array().context("no rows")?;
    let names = rows.iter().filter(|row| row["outcome"] == "Withheld");
    let names = names.map(|row| row["name"].as_str().map(str::to_owned).context("no name"));
    names.collect()
}

#[tokio::test]
async fn a_collection_in_the_pod_has_the_protections_of_the_chart() -> Result<()> {
    let root = root(&["orphan-1", "orphan-2", "precious-1"])?;
    let all: &[&str] = &["orphan-1", "orphan-2", "precious-1"];
    let without_limits = json!({"gcScope": "all", "gcGrace": "0s", "gcConfirmAfter": "0s"});
    for (values, expected) in [
        (json!({}), all),
        (json!({"gcProtect": ["precious-*"]}), &all[..2]),
        (json!({"gcGrace": "1h"}), &[]),
        (json!({"gcMaxDeletions": 1}), &all[..1]),
        // `seen` requires the names in a ConfigMap, which does not exist here.
        (json!({"gcScope": "seen"}), &[]),
    ] {
        let mut merged = without_limits.clone();
        json_patch::merge(&mut merged, &values);
        let deleted = would_delete(&chart_variables(&merged).await?, root.path()).await?;
        let expected: BTreeSet<_> = expected.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(deleted, expected, "{values}");
    }
    Ok(())
}

/// Each value has its own environment variable. `gc` reads all of them except those of scheduled
/// collections.
#[tokio::test]
async fn every_value_reaches_a_collection_in_the_pod() -> Result<()> {
    let help = Command::new(BINARY).args(["gc", "--help"]).output()?;
    let help = String::from_utf8(help.stdout)?;
    let values = json!({
        "gcScope": "all", "gcProtect": ["default", "precious-*"], "gcGrace": "1h30m", "gcMaxDeletions": 7,
        "gcConfirmAfter": "0s", "namespaceDeleteWorkers": 7, "namespaceDeleteGcDelay": "250ms",
        "namespaceDeleteGcInterval": "2h", "storageosRefreshInterval": "2m", "storageosRetryInterval": "6s",
    });
    let found = chart_variables(&values).await?;
    for (name, value) in [
        ("GC_SCOPE", "all"),
        ("GC_PROTECT", "default,precious-*"),
        ("GC_GRACE", "1h30m"),
        ("GC_MAX_DELETIONS", "7"),
        ("GC_CONFIRM_AFTER", "0s"),
        ("NAMESPACE_DELETE_WORKERS", "7"),
        ("NAMESPACE_DELETE_GC_DELAY", "250ms"),
        ("NAMESPACE_DELETE_GC_INTERVAL", "2h"),
        ("STORAGEOS_REFRESH_INTERVAL", "2m"),
        ("STORAGEOS_RETRY_INTERVAL", "6s"),
        ("STORAGE_BACKEND", "directory"),
        ("DIRECTORY_ROOT", "/var/lib/volume-warden/root"),
    ] {
        let name = format!("VOLUME_WARDEN_{name}");
        assert_eq!(found.get(&name).map(String::as_str), Some(value), "{name}");
        let only_scheduled = name.contains("DELETE_GC");
        assert!(
            only_scheduled || help.contains(&format!("[env: {name}")),
            "{name}"
        );
    }
    // `gc` refuses a wrong value, which shows that it reads the variable.
    let root = root(&[])?;
    for name in found.keys().filter(|name| !name.contains("DELETE_GC")) {
        let free_text = ["DIRECTORY_ROOT", "GC_PROTECT"].map(|end| name.ends_with(end));
        if free_text == [false, false] {
            let mut wrong = found.clone();
            wrong.insert(name.clone(), "no such value".to_owned());
            let output = gc(&wrong, root.path()).await?;
            assert_eq!(output.status.code(), Some(2), "{name}");
        }
    }
    Ok(())
}

/// With namespace-gc, the chart refuses its settings in `extraArgs`, because `gc` in the pod does
/// not have the arguments of `run`.
#[tokio::test]
async fn settings_of_a_collection_are_refused_as_arguments() -> Result<()> {
    for (argument, refused) in [
        ("--gc-protect=precious-*", true),
        ("--storageos-ca-file=/ca", true),
        ("--api-ca-file=/ca", true),
        ("--insecure-http", true),
        ("--system-namespace=other", true),
        ("--dry-run", false),
        ("--controller-id=mine", false),
    ] {
        let mut values = only(&["namespace-gc"]);
        values["extraArgs"] = json!([argument]);
        match template(&values, NAMESPACE).await {
            Ok(_) => assert!(!refused, "{argument} is accepted"),
            Err(error) => {
                let error = format!("{error:#}");
                assert!(
                    refused && error.contains("in extraEnv"),
                    "{argument}: {error}"
                );
            }
        }
        let mut without_gc = only(&["pv-releaser"]);
        without_gc["extraArgs"] = json!([argument]);
        template(&without_gc, NAMESPACE).await?;
    }
    Ok(())
}

/// The kustomize components of namespace-gc set no arguments of `run`, but environment variables
/// that `gc` reads, too.
#[tokio::test]
async fn the_kustomize_components_pass_variables_too() -> Result<()> {
    let help = Command::new(BINARY).args(["gc", "--help"]).output()?;
    let help = String::from_utf8(help.stdout)?;
    for option in ["seen", "storageos", "directory"] {
        let option = format!("namespace-gc-{option}");
        let kustomization = Kustomization::of(&["namespace-gc", &option], NAMESPACE)?;
        let manifests = rendered(kustomization.path()).await?;
        let objects: Vec<Value> = serde_saphyr::from_multiple(&manifests)?;
        let mut objects = objects.iter();
        let deployment = objects.find(|object| object["kind"] == "Deployment");
        let container =
            &deployment.context("no Deployment")?["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(
            container["args"],
            json!(["run", "--components=namespace-gc"]),
            "{option}"
        );
        let variables = variables(&manifests)?;
        ensure!(!variables.is_empty(), "{option}");
        for name in variables.keys() {
            assert!(help.contains(&format!("[env: {name}")), "{option}: {name}");
        }
    }
    Ok(())
}
