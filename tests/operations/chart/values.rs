//! The values that the chart accepts and refuses.

use super::{COMPONENTS, chart, only, section, template};
use crate::support::{BINARY, repository};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, process::Command};
use volume_warden_controlplane::Helm;

/// Pairs of the values that give others an effect, and another value for each of those.
const CHANGES: &str = r#"
[
    [{}, {
        "pvcProtection": {"enabled": false, "finishedPods": "release", "bindingGuard": true},
        "pvProtection": {"enabled": false},
        "pvcRetention": {"enabled": false},
        "pvcProvisioner": {
            "enabled": false, "strictTemplates": true, "authorizeRequester": "pod-creator", "orphanGrace": "2m",
            "blockOwnerDeletion": true
        },
        "pvReleaser": {
            "enabled": false, "disableAutomaticAssociation": true, "releaseMode": "soft", "legacyLabel": false,
            "associateByStorageClass": true
        },
        "dryRun": true,
        "webhooks": {
            "port": 10250,
            "namespaceSelector": {
                "matchLabels": {"team": "storage"},
                "matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]
            }
        },
        "tls": {"mode": "certManager"},
        "image": {"repository": "example.com/warden", "tag": "next", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "nameOverride": "warden", "fullnameOverride": "warden",
        "replicaCount": 3,
        "resources": {"limits": {"memory": "1Gi"}},
        "podSecurityContext": {"fsGroup": 65532},
        "securityContext": {"privileged": false},
        "hostNetwork": true,
        "podDisruptionBudget": {"enabled": false, "maxUnavailable": 2},
        "priorityClass": {"create": false},
        "topologySpreadConstraints": [],
        "affinity": {"nodeAffinity": {}},
        "tolerations": [{"key": "storage"}],
        "nodeSelector": {"pool": "system"},
        "networkPolicy": {"enabled": true},
        "metricsAuthorization": {"enabled": true},
        "serviceMonitor": {"enabled": true},
        "prometheusRule": {"enabled": true},
        "dashboards": {"enabled": true},
        "serviceAccount": {"create": false, "name": "mine", "annotations": {"a": "b"}},
        "extraArgs": ["--log-format=json"],
        "extraEnv": [{"name": "RUST_LOG", "value": "debug"}],
        "extraVolumes": [{"name": "ca"}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
        "commonLabels": {"a": "b"}, "podLabels": {"a": "b"}, "podAnnotations": {"a": "b"}
    }],
    [{"namespaceGc": {"storageBackend": "storageos"}}, {
        "namespaceGc": {
            "enabled": false, "storageBackend": "directory",
            "storageos": {"endpoint": "https://other", "secretName": "other"},
            "gcScope": "seen", "gcProtect": ["precious-*"], "gcGrace": "2m", "gcMaxDeletions": 1,
            "gcConfirmAfter": "20s", "namespaceDeleteWorkers": 1, "namespaceDeleteGcDelay": "1s",
            "namespaceDeleteGcInterval": "2h", "storageosRefreshInterval": "2m", "storageosRetryInterval": "6s"
        }
    }],
    [{"namespaceGc": {"storageBackend": "directory"}}, {
        "namespaceGc": {"directory": {"claimName": "other"}}
    }],
    [{"tls": {"mode": "certManager", "certManager": {"issuerRef": {"name": "ca"}}}}, {
        "tls": {"certManager": {"issuerRef": {"name": "other", "kind": "ClusterIssuer", "group": "example.com"}}}
    }],
    [{"tls": {"mode": "secret"}}, {"tls": {"secret": {"name": "other", "ca": "PEM"}}}],
    [{"tls": {"clientCA": {"configMapName": "ca"}}}, {
        "tls": {"clientCA": {"configMapName": "other", "allowedNames": []}}
    }],
    [{"image": {"tag": "next"}}, {"image": {"digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}],
    [{"priorityClass": {"create": false}}, {"priorityClass": {"name": "other"}}],
    [{"networkPolicy": {"enabled": true}}, {
        "networkPolicy": {"webhooksFrom": [{"podSelector": {}}], "metricsFrom": [{"podSelector": {}}]}
    }],
    [{"serviceMonitor": {"enabled": true}}, {"serviceMonitor": {"interval": "30s", "labels": {"a": "b"}}}],
    [{"prometheusRule": {"enabled": true}}, {"prometheusRule": {"labels": {"a": "b"}}}],
    [{"dashboards": {"enabled": true}}, {"dashboards": {"labels": {"a": "b"}}}]
]
"#;

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
    let values: Value = serde_saphyr::from_str(&file("values.yaml")?)?;
    let repository = values["image"]["repository"].as_str();
    let image = format!("{}:{program}", repository.context("no repository")?);
    let images = chart["annotations"]["artifacthub.io/images"].as_str();
    let images: Value = serde_saphyr::from_str(images.context("no images")?)?;
    assert_eq!(images[0]["image"], image);
    Ok(())
}

#[test]
fn alerts_and_dashboard_are_those_of_the_manifests() -> Result<()> {
    for name in ["rules.yaml", "dashboard.json"] {
        let original = repository().join("manifests/monitoring").join(name);
        ensure!(
            fs::read_to_string(&original)? == file(&format!("files/{name}"))?,
            "copy {} to the chart",
            original.display()
        );
    }
    Ok(())
}

/// Each error is Helm's own message, which names the value.
#[tokio::test]
async fn wrong_values_are_refused() -> Result<()> {
    let wrong = [
        (json!({"replica": 2}), "'replica' not allowed"),
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

/// An old key, even with a valid value, is refused with its new name.
#[tokio::test]
async fn old_keys_are_refused_with_the_new_name() -> Result<()> {
    let defaults: Value = serde_saphyr::from_str(&file("values.yaml")?)?;
    let mut renamed = vec![
        (
            json!({"replicas": 2}),
            "replicas is now replicaCount".to_owned(),
        ),
        (
            json!({"components": {"pvc-provisioner": {"orphanGraceSeconds": 60}}}),
            "components.pvc-provisioner.orphanGraceSeconds is now pvcProvisioner.orphanGrace, a duration"
                .to_owned(),
        ),
        (
            json!({"pvcProvisioner": {"orphanGraceSeconds": 60}}),
            "pvcProvisioner.orphanGraceSeconds is now pvcProvisioner.orphanGrace, a duration"
                .to_owned(),
        ),
        (
            json!({"components": {"pvc-protector": {"enabled": true}}}),
            "components.pvc-protector is unknown".to_owned(),
        ),
    ];
    for interval in ["RefreshInterval", "RetryInterval"] {
        let old = format!("api{interval}");
        let new = format!("namespaceGc.storageos{interval}");
        renamed.push((
            json!({"components": {"namespace-gc": {old.clone(): "1m"}}}),
            format!("components.namespace-gc.{old} is now {new}"),
        ));
        renamed.push((
            json!({"namespaceGc": {old.clone(): "1m"}}),
            format!("namespaceGc.{old} is now {new}"),
        ));
    }
    for component in COMPONENTS {
        let new = section(component);
        let options = defaults[&new].as_object().context("a section")?;
        for (key, value) in options {
            renamed.push((
                json!({"components": {component: {key: value}}}),
                format!("components.{component}.{key} is now {new}.{key}"),
            ));
        }
    }
    for (values, sentence) in renamed {
        let refused = template(&values, "volume-warden").await;
        let error = refused
            .err()
            .with_context(|| format!("{values} was accepted"))?;
        let error = format!("{error:#}");
        ensure!(error.contains(&sentence), "{values}: {error}");
    }
    Ok(())
}

/// The keys of a schema and of the values that it describes. Free-form objects have none, and old
/// keys are left out.
fn keys(path: &str, schema: &Value, values: &Value) -> Vec<(String, bool)> {
    let Some(properties) = schema["properties"].as_object() else {
        return vec![];
    };
    let properties = properties
        .iter()
        .filter(|(_, schema)| schema["deprecated"] != true);
    let deeper = properties.flat_map(|(key, schema)| {
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

fn deployment(rendered: &str) -> Result<Value> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(rendered)?;
    let mut objects = objects.into_iter();
    let deployment = objects.find(|object| object["kind"] == "Deployment");
    deployment.context("no Deployment")
}

/// The variable of a component's value: `VOLUME_WARDEN_ORPHAN_GRACE` for `orphanGrace`.
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

/// Every value of a component becomes a flag of the program, or its variable, in a valid form.
#[tokio::test]
async fn every_option_is_a_flag_of_the_program() -> Result<()> {
    let options = json!({
        "pvcProtection": {"finishedPods": "release"},
        "pvcProvisioner": {
            "strictTemplates": true, "authorizeRequester": "pod-creator", "orphanGrace": "12345678s", "blockOwnerDeletion": true,
        },
        "pvReleaser": {
            "disableAutomaticAssociation": true, "releaseMode": "soft", "legacyLabel": false, "associateByStorageClass": true,
        },
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
    let schema: Value = serde_json::from_str(&file("values.schema.json")?)?;
    let known = COMPONENTS.map(|name| {
        let key = section(name);
        let mut properties = schema["properties"][&key]["properties"].clone();
        if let Some(properties) = properties.as_object_mut() {
            properties.retain(|_, schema| schema["deprecated"] != true);
        }
        (key, properties)
    });
    let known: serde_json::Map<_, _> = known.into_iter().collect();
    assert_eq!(given, flags(&known.into()), "all of them are tried here");
    // Values of namespace-gc are variables, so that `gc` in the pod has them, too.
    let variables = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    let variables = variables.as_array().context("no variables")?;
    let collecting = options["namespaceGc"].as_object().context("a section")?;
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

/// `values.yaml` shows the defaults of the program, and a default becomes no flag.
#[tokio::test]
async fn defaults_are_those_of_the_program() -> Result<()> {
    let values: Value = serde_saphyr::from_str(&file("values.yaml")?)?;
    let help = Command::new(BINARY).args(["run", "--help"]).output()?;
    let help = String::from_utf8(help.stdout)?;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for key in flags(&values).iter().filter(|key| *key != "gcScope") {
        let named = COMPONENTS
            .iter()
            .find_map(|name| values[section(name)].get(key));
        let default = match named.context("a value")? {
            Value::String(text) => text.clone(),
            Value::Array(items) => {
                let items = items.iter().filter_map(Value::as_str);
                items.collect::<Vec<_>>().join(",")
            }
            other => other.to_string(),
        };
        let after = format!("[env: {}=] [default: ", variable(key));
        let (_, after) = help.split_once(&after).context(after)?;
        let (found, _) = after.split_once(']').context("no end")?;
        assert_eq!(found, default, "{key}");
    }
    let rendered = template(&values, "volume-warden").await?;
    assert_eq!(rendered, template(&json!({}), "volume-warden").await?);
    let deployment = deployment(&rendered)?;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container["args"].as_array().map(Vec::len),
        Some(1 + COMPONENTS.len())
    );
    assert_eq!(container["env"], Value::Null);
    Ok(())
}

/// The values that a schema describes, each with its value in `values`, or null. Objects whose keys
/// the schema names are not values themselves.
fn leaves(path: &str, schema: &Value, values: &Value) -> Vec<(String, Value)> {
    if schema["deprecated"] == true {
        return vec![];
    }
    let Some(properties) = schema["properties"].as_object() else {
        return vec![(path.to_owned(), values.clone())];
    };
    let deeper = properties
        .iter()
        .flat_map(|(key, schema)| leaves(&format!("{path}/{key}"), schema, &values[key]));
    deeper.collect()
}

/// The object in which the value at this path is the only one.
fn nested(path: &str, value: Value) -> Value {
    let keys = path.rsplit('/').filter(|key| !key.is_empty());
    keys.fold(value, |value, key| json!({key: value}))
}

/// No value is without effect.
#[tokio::test]
async fn every_value_changes_the_objects() -> Result<()> {
    let schema: Value = serde_json::from_str(&file("values.schema.json")?)?;
    let mut unused: BTreeSet<_> = leaves("", &schema, &Value::Null)
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| path != "/global")
        .collect();
    let changes: Vec<(Value, Value)> = serde_json::from_str(CHANGES)?;
    for (context, values) in &changes {
        let before = template(context, "volume-warden").await?;
        let changed = leaves("", &schema, values).into_iter();
        for (path, value) in changed.filter(|(_, value)| !value.is_null()) {
            let mut all = context.clone();
            json_patch::merge(&mut all, &nested(&path, value));
            let after = template(&all, "volume-warden").await?;
            ensure!(before != after, "{path} has no effect");
            unused.remove(&path);
        }
    }
    ensure!(unused.is_empty(), "not tried: {unused:?}");
    Ok(())
}

/// The README has a row for every value, with its default.
#[test]
fn the_readme_lists_every_value() -> Result<()> {
    let schema: Value = serde_json::from_str(&file("values.schema.json")?)?;
    let values: Value = serde_saphyr::from_str(&file("values.yaml")?)?;
    let readme = file("README.md")?;
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
