//! Values that the chart passes to the program, as flags or environment variables.

use super::{COMPONENTS, default_components, section, template, values::chart_file};
use crate::support::BINARY;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::{collections::BTreeSet, process::Command};

fn deployment(rendered: &str) -> Result<Value> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(rendered)?;
    let mut objects = objects.into_iter();
    let deployment = objects.find(|object| object["kind"] == "Deployment");
    deployment.context("no Deployment")
}

/// The environment variable of a component's value: `VOLUME_WARDEN_ORPHAN_GRACE` for `orphanGrace`.
fn variable(key: &str) -> String {
    let mut variable = "VOLUME_WARDEN_".to_owned();
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            variable.push('_');
        }
        variable.push(letter.to_ascii_uppercase());
    }
    variable
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
        .filter_map(|name| sections[section(name)].as_object());
    let keys = sections.flat_map(serde_json::Map::keys);
    keys.filter(|key| !chart_only.contains(&key.as_str()))
        .cloned()
        .collect()
}

/// The chart passes every value of a component to the program, as a flag that the program accepts
/// or as an environment variable.
#[tokio::test]
async fn every_option_is_a_flag_of_the_program() -> Result<()> {
    let options = json!({
        "pvcProtection": {"finishedPods": "release", "unusedCondition": "off"},
        "pvcProvisioner": {
            "strictTemplates": true, "templateFields": ["selector", "dataSource"], "allowedStorageClasses": ["fast", "slow"],
            "authorizeRequester": "pod-creator", "orphanGrace": "12345678s", "blockOwnerDeletion": true,
        },
        "pvReleaser": {
            "disableAutomaticAssociation": true, "releaseMode": "soft", "releaseScope": "cluster", "legacyLabel": false, "associateByStorageClass": true,
        },
        "pvcTrash": {"trashMaxPurges": "unlimited", "trashMaxBytes": "500Gi"},
        "pvcExpiry": {
            "enabled": true, "expiryMaxDeletions": "unlimited", "expiryReferences": ["db.io/Database:.spec['a','b']"],
        },
        "trashList": {"enabled": true},
        "namespaceGc": {
            "gcScope": "all", "gcProtect": ["default", "precious-*"], "gcGrace": "1h30m", "gcMaxDeletions": 0, "gcConfirmAfter": "0",
            "namespaceDeleteWorkers": 7, "namespaceDeleteGcDelay": "250ms", "namespaceDeleteGcInterval": "2h",
            "storageosRefreshInterval": "2m", "storageosRetryInterval": "6s",
        },
    });
    let rendered = template(&options, "volume-warden").await?;
    let deployment = deployment(&rendered)?;
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let arguments: Vec<String> = serde_json::from_value(arguments.clone())?;
    let given = flags(&options);
    let schema: Value = serde_json::from_str(&chart_file("values.schema.json")?)?;
    let known = COMPONENTS.map(|name| {
        let key = section(name);
        let mut properties = schema["properties"][&key]["properties"].clone();
        if let Some(properties) = properties.as_object_mut() {
            properties.retain(|_, schema| schema["deprecated"] != true);
        }
        (key, properties)
    });
    let known: serde_json::Map<_, _> = known.into_iter().collect();
    assert_eq!(given, flags(&known.into()), "the test sets all flags");
    // Values of namespace-gc are environment variables, so that `gc` in the pod reads them, too.
    let variables = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    let variables = variables.as_array().context("no variables")?;
    let namespace_gc = options["namespaceGc"].as_object().context("a section")?;
    assert_eq!(variables.len(), namespace_gc.len(), "{variables:?}");
    assert_eq!(
        arguments.len() + variables.len(),
        1 + COMPONENTS.len() + given.len(),
        "{arguments:?}"
    );
    ensure!(
        arguments.contains(&"--orphan-grace=12345678s".to_owned()),
        "{arguments:?}"
    );
    for (last, accepted) in [("--help", true), ("--no-such-flag", false)] {
        let output = Command::new(BINARY).args(&arguments).arg(last).output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.success(),
            accepted,
            "{arguments:?} {last}: {error}"
        );
    }
    Ok(())
}

/// `values.yaml` contains the defaults of the program, and the chart passes no flag for a default.
#[tokio::test]
async fn defaults_are_those_of_the_program() -> Result<()> {
    let values: Value = serde_saphyr::from_str(&chart_file("values.yaml")?)?;
    let help = Command::new(BINARY).args(["run", "--help"]).output()?;
    let help = String::from_utf8(help.stdout)?;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for key in flags(&values).iter().filter(|key| *key != "gcScope") {
        let value = COMPONENTS
            .iter()
            .find_map(|name| values[section(name)].get(key));
        let default = match value.context("a value")? {
            Value::String(text) => text.clone(),
            Value::Array(items) => {
                let items = items.iter().filter_map(Value::as_str);
                items.collect::<Vec<_>>().join(",")
            }
            other => other.to_string(),
        };
        let variable = format!("[env: {}=] ", variable(key));
        let (_, after) = help.split_once(&variable).context(variable)?;
        // The help shows no default for an empty list.
        let found = after.strip_prefix("[default: ").unwrap_or("]");
        let (found, _) = found.split_once(']').context("no end")?;
        assert_eq!(found, default, "{key}");
    }
    let rendered = template(&values, "volume-warden").await?;
    assert_eq!(rendered, template(&json!({}), "volume-warden").await?);
    let deployment = deployment(&rendered)?;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container["args"].as_array().map(Vec::len),
        Some(1 + default_components().len())
    );
    assert_eq!(container["env"], Value::Null);
    Ok(())
}
