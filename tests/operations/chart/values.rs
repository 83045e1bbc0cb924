//! The values that the chart accepts and refuses.

use super::{chart, only, template};
use crate::support::repository;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use volume_warden_controlplane::Helm;

pub(super) fn chart_file(name: &str) -> Result<String> {
    Ok(fs::read_to_string(chart().join(name))?)
}

#[tokio::test]
async fn the_chart_passes_lint() -> Result<()> {
    let chart = chart().display().to_string();
    let helm = Helm::locate().await?;
    let output = helm.run(&["lint", "--strict", &chart]).await?;
    ensure!(
        output.contains("1 chart(s) linted, 0 chart(s) failed"),
        "{output}"
    );
    Ok(())
}

#[test]
fn the_chart_has_the_version_of_the_program() -> Result<()> {
    let chart: Value = serde_saphyr::from_str(&chart_file("Chart.yaml")?)?;
    let program = env!("CARGO_PKG_VERSION");
    assert_eq!(
        [&chart["version"], &chart["appVersion"]],
        [program, program]
    );
    let values: Value = serde_saphyr::from_str(&chart_file("values.yaml")?)?;
    let repository = values["image"]["repository"].as_str();
    let image = format!("{}:{program}", repository.context("no repository")?);
    let images = chart["annotations"]["artifacthub.io/images"].as_str();
    let images: Value = serde_saphyr::from_str(images.context("no images")?)?;
    assert_eq!(images[0]["image"], image);
    Ok(())
}

/// The annotations have the form that Artifact Hub documents, with lists as YAML.
#[test]
fn the_annotations_can_be_read_by_artifact_hub() -> Result<()> {
    const KINDS: [&str; 6] = [
        "added",
        "changed",
        "deprecated",
        "fixed",
        "removed",
        "security",
    ];
    let chart: Value = serde_saphyr::from_str(&chart_file("Chart.yaml")?)?;
    let annotations = &chart["annotations"];
    assert_eq!(annotations["artifacthub.io/category"], "storage");
    assert_eq!(annotations["artifacthub.io/license"], "Apache-2.0");
    let list = |name: &str| -> Result<Vec<Value>> {
        let text = annotations[format!("artifacthub.io/{name}")].as_str();
        Ok(serde_saphyr::from_str(text.context("no list")?)?)
    };
    let text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    for change in list("changes")? {
        let known = KINDS.iter().any(|kind| change["kind"] == *kind);
        ensure!(known && text(&change["description"]), "{change}");
    }
    for link in list("links")? {
        let url = link["url"].as_str().unwrap_or_default();
        ensure!(text(&link["name"]) && url.starts_with("https://"), "{link}");
    }
    for image in list("images")? {
        let platforms = image["platforms"].as_array();
        ensure!(
            text(&image["name"]) && platforms.is_some_and(|all| all.len() == 2),
            "{image}"
        );
    }
    Ok(())
}

#[test]
fn alerts_and_dashboard_are_those_of_the_manifests() -> Result<()> {
    for name in ["rules.yaml", "dashboard.json"] {
        let original = repository().join("manifests/monitoring").join(name);
        ensure!(
            fs::read_to_string(&original)? == chart_file(&format!("files/{name}"))?,
            "copy {} to the chart",
            original.display()
        );
    }
    Ok(())
}

/// Helm refuses each wrong value, and the error names the value or the cause.
#[tokio::test]
async fn wrong_values_are_refused() -> Result<()> {
    let wrong = [
        (json!({"replica": 2}), "'replica' not allowed"),
        (json!({"onlyProtection": "yes"}), "'/onlyProtection'"),
        (json!({"replicaCount": "two"}), "'/replicaCount'"),
        (json!({"replicaCount": -1}), "'/replicaCount'"),
        (json!({"pvcProtector": {}}), "'pvcProtector' not allowed"),
        (
            json!({"pvProtection": {"enable": true}}),
            "'enable' not allowed",
        ),
        (
            json!({"pvProtection": {"enabled": "yes"}}),
            "'/pvProtection/enabled'",
        ),
        (
            json!({"pvcProtection": {"finishedPods": "drop"}}),
            "'/pvcProtection/finishedPods'",
        ),
        (
            json!({"namespaceGc": {"gcGrace": "a while"}}),
            "'/namespaceGc/gcGrace'",
        ),
        (
            json!({"namespaceGc": {"gcProtect": []}}),
            "'/namespaceGc/gcProtect'",
        ),
        (
            json!({"namespaceGc": {"gcProtect": ["Prod_*"]}}),
            "'/namespaceGc/gcProtect/0'",
        ),
        (
            json!({"namespaceGc": {"storageosRetryInterval": "0"}}),
            "'/namespaceGc/storageosRetryInterval'",
        ),
        (
            json!({"namespaceGc": {"namespaceDeleteGcInterval": "500ms"}}),
            "'/namespaceGc/namespaceDeleteGcInterval'",
        ),
        (
            json!({"pvcProvisioner": {"orphanGrace": "500ms"}}),
            "'/pvcProvisioner/orphanGrace'",
        ),
        (
            json!({"pvcTrash": {"trashMaxBytes": "500K"}}),
            "'/pvcTrash/trashMaxBytes'",
        ),
        (json!({"webhooks": {"port": 0}}), "'/webhooks/port'"),
        (
            json!({"webhooks": {"namespaceSelector": {"team": "storage"}}}),
            "'team' not allowed",
        ),
        (
            json!({"serviceMonitor": {"interval": "30 s"}}),
            "'/serviceMonitor/interval'",
        ),
        (
            json!({"fullnameOverride": "Volume_Warden"}),
            "'/fullnameOverride'",
        ),
        (json!({"tls": {"mode": "self-signed"}}), "'/tls/mode'"),
        (json!({"image": {"digest": "latest"}}), "'/image/digest'"),
        (json!({"extraArgs": "--dry-run"}), "'/extraArgs'"),
        (
            json!({"networkPolicy": {"enabled": true, "webhooksFrom": "10.0.0.0/8"}}),
            "'/networkPolicy/webhooksFrom'",
        ),
        (only(&[]), "no component is enabled"),
        (
            json!({"podDisruptionBudget": {"maxUnavailable": "0%"}}),
            "'/podDisruptionBudget/maxUnavailable'",
        ),
        (
            json!({"extraArgs": ["--probe-bind-address=127.0.0.1:9"]}),
            "set the variable VOLUME_WARDEN_PROBE_BIND_ADDRESS in extraEnv",
        ),
        (
            json!({"extraArgs": ["--leader-elect-identity=one"]}),
            "all replicas would lead",
        ),
        (
            json!({"pvcProvisioner": {"authorizeRequester": "pod-creator"},
                "webhooks": {"namespaceSelector": {"matchLabels": {"team": "storage"}}}}),
            "name these namespaces in webhooks.exemptNamespaces",
        ),
    ];
    for (values, part) in wrong {
        let refused = template(&values, "volume-warden").await;
        let error = refused
            .err()
            .with_context(|| format!("{values} was accepted"))?;
        let error = format!("{error:#}");
        ensure!(error.contains(part), "{values}: {error}");
    }
    Ok(())
}

/// Durations and sizes that the program accepts.
#[tokio::test]
async fn values_of_any_unit_are_accepted() -> Result<()> {
    for (interval, grace, bytes) in [
        ("0", "1m30s", "500Gi"),
        ("0.5h", "1h0m0s", "500k"),
        ("1s500ms", "100ms1s", "1.5T"),
    ] {
        let values = json!({
            "namespaceGc": {"namespaceDeleteGcInterval": interval, "gcProtect": ["a-*.b1"]},
            "pvcProvisioner": {"orphanGrace": grace},
            "pvcTrash": {"trashMaxBytes": bytes},
        });
        template(&values, "volume-warden").await?;
    }
    Ok(())
}

/// The path of each key of a schema, and whether `values` contain it. Free-form objects have no
/// keys, and deprecated keys are omitted.
fn keys(path: &str, schema: &Value, values: &Value) -> Vec<(String, bool)> {
    let Some(properties) = schema["properties"].as_object() else {
        return vec![];
    };
    let properties = properties
        .iter()
        .filter(|(_, schema)| schema["deprecated"] != true);
    let nested = properties.flat_map(|(key, schema)| {
        let path = format!("{path}/{key}");
        let mut all = keys(&path, schema, &values[key]);
        all.push((path, values.get(key).is_some()));
        all
    });
    nested.collect()
}

/// `values.yaml` contains every value that the schema accepts, except values without a default.
#[test]
fn every_value_has_a_place_in_the_values_file() -> Result<()> {
    let schema: Value = serde_json::from_str(&chart_file("values.schema.json")?)?;
    let values: Value = serde_saphyr::from_str(&chart_file("values.yaml")?)?;
    let missing = keys("", &schema, &values)
        .into_iter()
        .filter(|(_, present)| !present);
    let missing: Vec<_> = missing.map(|(path, _)| path).collect();
    let without_default = [
        "/global",
        "/group",
        "/kind",
        "/name",
        "/matchExpressions",
        "/matchLabels",
    ];
    let unexpected = missing
        .iter()
        .filter(|path| !without_default.iter().any(|end| path.ends_with(end)));
    assert_eq!(unexpected.count(), 0, "{missing:?}");
    Ok(())
}

/// The path of each value that a schema describes, and its value in `values`, or null. An object
/// whose keys the schema names is not a value itself.
pub(super) fn leaves(path: &str, schema: &Value, values: &Value) -> Vec<(String, Value)> {
    if schema["deprecated"] == true {
        return vec![];
    }
    let Some(properties) = schema["properties"].as_object() else {
        return vec![(path.to_owned(), values.clone())];
    };
    let nested = properties
        .iter()
        .flat_map(|(key, schema)| leaves(&format!("{path}/{key}"), schema, &values[key]));
    nested.collect()
}

/// The README has a row for every value, with its default.
#[test]
fn the_readme_lists_every_value() -> Result<()> {
    let schema: Value = serde_json::from_str(&chart_file("values.schema.json")?)?;
    let values: Value = serde_saphyr::from_str(&chart_file("values.yaml")?)?;
    let readme = chart_file("README.md")?;
    let (_, table) = readme.split_once("| value |").context("no table")?;
    let (table, _) = table.split_once("\n\n").context("no end")?;
    let mut rows = 0;
    for (path, default) in leaves("", &schema, &values) {
        if path == "/global" {
            continue;
        }
        let key = path[1..].replace('/', ".");
        let row = format!("\n| `{key}` | ");
        let (_, row) = table.split_once(&row).context(row)?;
        let (cell, _) = row.split_once(" |").context("no end")?;
        let expected = if default.is_null() {
            String::new()
        } else {
            format!("`{default}`")
        };
        ensure!(
            cell.trim() == expected || cell == "see `values.yaml`",
            "{key}: {cell}, not {expected}"
        );
        rows += 1;
    }
    assert_eq!(table.lines().count(), rows + 2);
    Ok(())
}
