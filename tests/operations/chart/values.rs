//! The values that the chart accepts and refuses.

use super::{COMPONENTS, chart, only, template};
use crate::support::BINARY;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, process::Command};
use volume_warden_controlplane::Helm;

fn file(name: &str) -> Result<String> {
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
fn the_chart_is_of_the_programs_version() -> Result<()> {
    let chart: Value = serde_saphyr::from_str(&file("Chart.yaml")?)?;
    let program = env!("CARGO_PKG_VERSION");
    assert_eq!(
        [&chart["version"], &chart["appVersion"]],
        [program, program]
    );
    Ok(())
}

/// Each error is Helm's own message, which names the value.
#[tokio::test]
async fn wrong_values_are_refused() -> Result<()> {
    let component = |name: &str, option: Value| json!({"components": {name: option}});
    let wrong = [
        (json!({"replica": 2}), "'replica' not allowed"),
        (json!({"replicas": "two"}), "'/replicas'"),
        (json!({"replicas": -1}), "'/replicas'"),
        (
            component("pvc-protector", json!({})),
            "'pvc-protector' not allowed",
        ),
        (
            component("pv-protection", json!({"enable": true})),
            "'enable' not allowed",
        ),
        (
            component("pv-protection", json!({"enabled": "yes"})),
            "'/components/pv-protection/enabled'",
        ),
        (
            component("pvc-protection", json!({"finishedPods": "drop"})),
            "'/components/pvc-protection/finishedPods'",
        ),
        (
            component("namespace-gc", json!({"gcGrace": "a while"})),
            "'/components/namespace-gc/gcGrace'",
        ),
        (json!({"tls": {"mode": "self-signed"}}), "'/tls/mode'"),
        (json!({"image": {"digest": "latest"}}), "'/image/digest'"),
        (json!({"extraArgs": "--dry-run"}), "'/extraArgs'"),
        (
            json!({"networkPolicy": {"enabled": true, "webhooksFrom": "10.0.0.0/8"}}),
            "'/networkPolicy/webhooksFrom'",
        ),
        (only(&[]), "no component is enabled"),
    ];
    for (values, part) in wrong {
        let refused = template(&values, "volume-warden").await;
        let error = refused
            .err()
            .with_context(|| format!("{values} was taken"))?;
        let error = format!("{error:#}");
        ensure!(error.contains(part), "{values}: {error}");
    }
    Ok(())
}

/// The keys of a schema and of the values that it describes. Free-form objects have none.
fn keys(path: &str, schema: &Value, values: &Value) -> Vec<(String, bool)> {
    let Some(properties) = schema["properties"].as_object() else {
        return vec![];
    };
    let deeper = properties.iter().flat_map(|(key, schema)| {
        let path = format!("{path}/{key}");
        let mut all = keys(&path, schema, &values[key]);
        all.push((path, values.get(key).is_some()));
        all
    });
    deeper.collect()
}

/// Every accepted value is in values.yaml with its default. The schema refuses all other keys.
#[test]
fn every_value_has_a_place_in_the_values_file() -> Result<()> {
    let schema: Value = serde_json::from_str(&file("values.schema.json")?)?;
    let values: Value = serde_saphyr::from_str(&file("values.yaml")?)?;
    let missing = keys("", &schema, &values)
        .into_iter()
        .filter(|(_, there)| !there);
    let missing: Vec<_> = missing.map(|(path, _)| path).collect();
    let without_default = ["/global", "/group", "/kind", "/name"];
    let unexpected = missing
        .iter()
        .filter(|path| !without_default.iter().any(|end| path.ends_with(end)));
    assert_eq!(unexpected.count(), 0, "{missing:?}");
    Ok(())
}

/// The keys in the components' sections that become flags of the program.
fn flags(sections: &Value) -> BTreeSet<String> {
    let chart_only = [
        "enabled",
        "bindingGuard",
        "storageBackend",
        "storageos",
        "directory",
    ];
    let sections = COMPONENTS
        .iter()
        .filter_map(|name| sections[name].as_object());
    let keys = sections.flat_map(serde_json::Map::keys);
    keys.filter(|key| !chart_only.contains(&key.as_str()))
        .cloned()
        .collect()
}

/// Every value of a component becomes a flag of the program, or its variable, in a valid form.
#[tokio::test]
async fn every_option_is_a_flag_of_the_program() -> Result<()> {
    let options = json!({
        "pvc-protection": {"finishedPods": "release"},
        "pvc-provisioner": {
            "strictTemplates": true, "authorizeRequester": "pod-creator", "orphanGrace": "12345678s", "blockOwnerDeletion": false,
        },
        "pv-releaser": {
            "disableAutomaticAssociation": false, "releaseMode": "soft", "legacyLabel": false, "associateByStorageClass": true,
        },
        "namespace-gc": {
            "gcScope": "all", "gcProtect": ["default", "kube-*"], "gcGrace": "1h30m", "gcMaxDeletions": 0, "gcConfirmAfter": "0",
            "namespaceDeleteWorkers": 7, "namespaceDeleteGcDelay": "250ms", "namespaceDeleteGcInterval": "2h",
            "storageosRefreshInterval": "1m", "storageosRetryInterval": "5s",
        },
    });
    let rendered = template(&json!({"components": options}), "volume-warden").await?;
    let rendered: Vec<Value> = serde_saphyr::from_multiple(&rendered)?;
    let deployment = rendered
        .iter()
        .find(|object| object["kind"] == "Deployment");
    let deployment = deployment.context("a Deployment")?;
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let arguments: Vec<String> = serde_json::from_value(arguments.clone())?;
    let given = flags(&options);
    let schema: Value = serde_json::from_str(&file("values.schema.json")?)?;
    let known = COMPONENTS.map(|name| {
        let section = &schema["properties"]["components"]["properties"][name];
        (name.to_owned(), section["properties"].clone())
    });
    let known: serde_json::Map<_, _> = known.into_iter().collect();
    assert_eq!(given, flags(&known.into()), "all of them are tried here");
    // Values of namespace-gc are variables, so that `gc` in the pod has them, too.
    let variables = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    let variables = variables.as_array().context("no variables")?;
    let collecting = options["namespace-gc"].as_object().context("a section")?;
    assert_eq!(variables.len(), collecting.len(), "{variables:?}");
    assert_eq!(
        arguments.len() + variables.len(),
        1 + COMPONENTS.len() + given.len(),
        "{arguments:?}"
    );
    ensure!(
        arguments.contains(&"--orphan-grace=12345678s".to_owned()),
        "{arguments:?}"
    );
    for (last, taken) in [("--help", true), ("--no-such-flag", false)] {
        let output = Command::new(BINARY).args(&arguments).arg(last).output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.success(),
            taken,
            "{arguments:?} {last}: {error}"
        );
    }
    Ok(())
}
