//! The chart refuses the keys of version 0.1.0.

use super::{COMPONENTS, section, template, values::chart_file};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// The error with which the chart refuses these values.
async fn refusal(values: &Value) -> Result<String> {
    let refused = template(values, "volume-warden").await.err();
    let error = refused.with_context(|| format!("{values} was accepted"))?;
    Ok(format!("{error:#}"))
}

/// The chart refuses an old key, even with a valid value. The error names the new key.
#[tokio::test]
async fn old_keys_are_refused_with_the_new_name() -> Result<()> {
    let defaults: Value = serde_saphyr::from_str(&chart_file("values.yaml")?)?;
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
    for (values, sentence) in renamed {
        let error = refusal(&values).await?;
        ensure!(error.contains(&sentence), "{values}: {error}");
    }

    // The error has one sentence for each old key, so these need only one run of Helm.
    let (mut values, mut sentences) = (json!({}), Vec::new());
    for component in COMPONENTS {
        let new = section(component);
        let options = defaults[&new].as_object().context("a section")?;
        for (key, value) in options {
            values["components"][component][key] = value.clone();
            sentences.push(format!("components.{component}.{key} is now {new}.{key}"));
        }
    }
    let error = refusal(&values).await?;
    for sentence in &sentences {
        ensure!(error.contains(sentence), "no \"{sentence}\": {error}");
    }
    let refused = error.matches(" is now ").count();
    assert_eq!(refused, sentences.len(), "{error}");
    Ok(())
}
