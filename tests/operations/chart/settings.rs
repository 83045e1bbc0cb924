//! Values of the installation set fields of the objects. Users of kustomize patch these fields, so
//! there is no kustomize component to compare with.

use super::template;
use crate::support::BINARY;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

pub(super) async fn rendered(values: &Value) -> Result<Vec<Value>> {
    let text = template(values, "volume-warden").await?;
    Ok(serde_saphyr::from_multiple(&text)?)
}

/// The object of this kind with the name `volume-warden`; null if there is none.
pub(super) fn find(objects: &[Value], kind: &str) -> Value {
    let named = |object: &&Value| object["metadata"]["name"] == "volume-warden";
    let mut objects = objects.iter().filter(named);
    let found = objects.find(|object| object["kind"] == kind);
    found.cloned().unwrap_or_default()
}

#[tokio::test]
async fn installation_values_reach_their_fields() -> Result<()> {
    let pod = "/spec/template/spec";
    let container = "/spec/template/spec/containers/0";
    let peers = json!([{"ipBlock": {"cidr": "10.0.0.0/8"}}]);
    let values = json!({
        "tls": {"mode": "certManager", "certManager": {"issuerRef": {"name": "ca", "kind": "ClusterIssuer"}}},
        "image": {"repository": "example.com/warden", "digest": DIGEST, "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "replicaCount": 3,
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        "podDisruptionBudget": {"maxUnavailable": "50%"},
        "priorityClass": {"create": false, "name": "system-cluster-critical"},
        "topologySpreadConstraints": [],
        "tolerations": [{"key": "storage"}],
        "affinity": {"nodeAffinity": {}},
        "nodeSelector": {"pool": "system"},
        "networkPolicy": {"webhooksFrom": peers},
        "serviceMonitor": {"enabled": true, "interval": "30s", "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": true, "labels": {"release": "prometheus"}},
        "serviceAccount": {"annotations": {"example.com/role": "warden"}},
        "extraEnv": [{"name": "RUST_LOG", "value": "debug"}],
        "extraArgs": ["--log-format=json"],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
        "dryRun": true,
        "hostNetwork": true,
        "webhooks": {"port": 10250},
        "podSecurityContext": {"runAsUser": 1000},
        "securityContext": {"readOnlyRootFilesystem": false},
        "podLabels": {"example.com/cost": "storage", "app.kubernetes.io/name": "other"},
        "commonLabels": {"team": "storage"},
        "podAnnotations": {"example.com/note": "mine"},
    });
    let objects = rendered(&values).await?;
    let image = format!("example.com/warden@{DIGEST}");
    for (kind, path, expected) in [
        ("Deployment", format!("{container}/image"), json!(image)),
        (
            "Deployment",
            format!("{container}/imagePullPolicy"),
            json!("Always"),
        ),
        (
            "Deployment",
            format!("{container}/resources"),
            values["resources"].clone(),
        ),
        (
            "Deployment",
            format!("{container}/env"),
            values["extraEnv"].clone(),
        ),
        (
            "Deployment",
            format!("{container}/args/10"),
            json!("--webhook-bind-address=[::]:10250"),
        ),
        (
            "Deployment",
            format!("{container}/ports/0/containerPort"),
            json!(10250),
        ),
        (
            "Deployment",
            format!("{container}/args/11"),
            json!("--dry-run"),
        ),
        (
            "Deployment",
            format!("{container}/args/12"),
            json!("--log-format=json"),
        ),
        (
            "Deployment",
            format!("{container}/volumeMounts/1"),
            values["extraVolumeMounts"][0].clone(),
        ),
        (
            "Deployment",
            format!("{pod}/volumes/1"),
            values["extraVolumes"][0].clone(),
        ),
        ("Deployment", format!("{pod}/hostNetwork"), json!(true)),
        (
            "Deployment",
            "/spec/strategy/rollingUpdate/maxSurge".to_owned(),
            json!(0),
        ),
        // The other fields keep their defaults.
        (
            "Deployment",
            format!("{pod}/securityContext"),
            json!({
                "runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"},
            }),
        ),
        (
            "Deployment",
            format!("{container}/securityContext"),
            json!({
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": false, "capabilities": {"drop": ["ALL"]},
            }),
        ),
        (
            "Deployment",
            "/spec/template/metadata/labels/example.com~1cost".to_owned(),
            json!("storage"),
        ),
        // podLabels do not replace the label that the selector uses.
        (
            "Deployment",
            "/spec/template/metadata/labels/app.kubernetes.io~1name".to_owned(),
            json!("volume-warden"),
        ),
        (
            "Deployment",
            format!("{pod}/imagePullSecrets"),
            values["imagePullSecrets"].clone(),
        ),
        (
            "Deployment",
            format!("{pod}/priorityClassName"),
            json!("system-cluster-critical"),
        ),
        (
            "Deployment",
            format!("{pod}/topologySpreadConstraints"),
            Value::Null,
        ),
        (
            "Deployment",
            format!("{pod}/tolerations"),
            values["tolerations"].clone(),
        ),
        (
            "Deployment",
            format!("{pod}/affinity/nodeAffinity"),
            json!({}),
        ),
        (
            "Deployment",
            format!("{pod}/nodeSelector"),
            values["nodeSelector"].clone(),
        ),
        ("Deployment", "/spec/replicas".to_owned(), json!(3)),
        (
            "Deployment",
            "/spec/template/metadata/annotations".to_owned(),
            values["podAnnotations"].clone(),
        ),
        (
            "Deployment",
            "/spec/template/metadata/labels/team".to_owned(),
            json!("storage"),
        ),
        (
            "PodDisruptionBudget",
            "/spec/maxUnavailable".to_owned(),
            json!("50%"),
        ),
        ("PriorityClass", "/value".to_owned(), Value::Null),
        ("NetworkPolicy", "/spec/ingress/0/from".to_owned(), peers),
        (
            "NetworkPolicy",
            "/spec/ingress/1/from".to_owned(),
            Value::Null,
        ),
        (
            "ServiceMonitor",
            "/metadata/labels/release".to_owned(),
            json!("prometheus"),
        ),
        (
            "ServiceMonitor",
            "/spec/endpoints/0/interval".to_owned(),
            json!("30s"),
        ),
        (
            "PrometheusRule",
            "/metadata/labels/release".to_owned(),
            json!("prometheus"),
        ),
        (
            "ServiceAccount",
            "/metadata/annotations".to_owned(),
            values["serviceAccount"]["annotations"].clone(),
        ),
        (
            "Certificate",
            "/spec/issuerRef".to_owned(),
            values["tls"]["certManager"]["issuerRef"].clone(),
        ),
        ("Issuer", "/spec".to_owned(), Value::Null),
    ] {
        let object = find(&objects, kind);
        let found = object.pointer(&path).cloned().unwrap_or_default();
        assert_eq!(found, expected, "{kind} {path}");
    }
    let labelled = objects
        .iter()
        .filter(|each| each["metadata"]["labels"]["team"] == "storage");
    assert_eq!(labelled.count(), objects.len());
    Ok(())
}

/// With a certificate and a service account of the user, the chart mounts the Secret, publishes its
/// CA, grants no permission to Secrets, and grants the other permissions to that service account.
#[tokio::test]
async fn certificate_and_account_may_be_provided_by_the_user() -> Result<()> {
    let objects = rendered(&json!({
        "tls": {"mode": "secret", "secret": {"name": "mine", "ca": "PEM"}},
        "serviceAccount": {"create": false, "name": "own"},
    }))
    .await?;
    let deployment = find(&objects, "Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"][0]["secret"]["secretName"], "mine");
    assert_eq!(pod["serviceAccountName"], "own");
    let arguments = pod["containers"][0]["args"].to_string();
    ensure!(arguments.contains("--tls-cert-file="), "{arguments}");
    let webhooks = objects
        .iter()
        .filter_map(|each| each["webhooks"].as_array());
    let webhooks: Vec<_> = webhooks.flatten().collect();
    let published = webhooks
        .iter()
        .filter(|each| each["clientConfig"]["caBundle"] == "UEVN");
    assert_eq!((webhooks.len(), published.count()), (16, 16));
    for object in &objects {
        let name = object["metadata"]["name"].as_str().context("a name")?;
        ensure!(
            !name.ends_with("-tls") && object["kind"] != "ServiceAccount",
            "{object}"
        );
        let subjects = object["subjects"].as_array().into_iter().flatten();
        for subject in subjects {
            assert_eq!(subject["name"], "own", "{name}");
        }
    }
    Ok(())
}

/// The Secrets of the release, and those that cert-manager writes for its Certificates.
fn written_secrets(objects: &[Value]) -> BTreeSet<&str> {
    let written = objects
        .iter()
        .filter_map(|object| match object["kind"].as_str() {
            Some("Secret") => object["metadata"]["name"].as_str(),
            Some("Certificate") => object["spec"]["secretName"].as_str(),
            _ => None,
        });
    written.collect()
}

/// After a change of the TLS mode, no Secret of the old mode is mounted, unless the new mode writes
/// the same Secret. Helm deletes the objects of the old mode, and until then its Secrets are
/// overwritten.
#[tokio::test]
async fn another_tls_mode_deletes_no_secret_that_it_mounts() -> Result<()> {
    let mut all = vec![];
    for mode in ["selfSigned", "certManager", "secret"] {
        all.push((mode, rendered(&json!({"tls": {"mode": mode}})).await?));
    }
    for (new, after) in &all {
        let deployment = find(after, "Deployment");
        let volumes = deployment.pointer("/spec/template/spec/volumes");
        let volumes = volumes.and_then(Value::as_array).into_iter().flatten();
        let mounted: BTreeSet<_> = volumes
            .filter_map(|volume| volume["secret"]["secretName"].as_str())
            .collect();
        ensure!(mounted.is_empty() == (*new == "selfSigned"), "{mounted:?}");
        let still_written = written_secrets(after);
        for (old, before) in &all {
            let mut lost = written_secrets(before);
            lost.retain(|name| mounted.contains(name) && !still_written.contains(name));
            ensure!(lost.is_empty(), "{old} to {new}: {lost:?}");
        }
    }
    Ok(())
}

/// The webhooks of these objects, by name.
fn webhooks(objects: &[Value]) -> BTreeMap<String, Value> {
    let webhooks = objects
        .iter()
        .filter_map(|each| each["webhooks"].as_array());
    let named = |webhook: &Value| Some((webhook["name"].as_str()?.to_owned(), webhook.clone()));
    webhooks.flatten().filter_map(named).collect()
}

/// `webhooks.namespaceSelector` is added to the exclusions that the webhooks have anyway. It does
/// not change the webhooks for volumes, which have no namespace, for markers, which decide about
/// deletions, and for the trash, which keeps the data of all namespaces.
#[tokio::test]
async fn the_namespace_selector_can_only_exclude_more() -> Result<()> {
    let skip = json!({"key": "skip", "operator": "DoesNotExist"});
    let selector = json!({"matchLabels": {"team": "storage"}, "matchExpressions": [skip]});
    let mut values = json!({"pvcProtection": {"bindingGuard": true}});
    let before = webhooks(&rendered(&values).await?);
    values["webhooks"] = json!({"namespaceSelector": selector});
    let after = webhooks(&rendered(&values).await?);
    assert_eq!((before.len(), after.len()), (17, 17));
    for (name, webhook) in before {
        let mut expected = webhook["namespaceSelector"].clone();
        let unchanged = [
            "marks.",
            "volumes.",
            "bind.",
            "phase.",
            "deletions.pv-",
            "claims.pv-",
            "claims.pvc-trash.",
        ];
        let is_unchanged = unchanged.iter().any(|part| name.starts_with(part));
        let expressions = expected.get_mut("matchExpressions");
        match expressions.and_then(Value::as_array_mut) {
            _ if is_unchanged => {}
            Some(expressions) => {
                expressions.push(skip.clone());
                expected["matchLabels"] = selector["matchLabels"].clone();
            }
            None => expected = selector.clone(),
        }
        assert_eq!(after[&name]["namespaceSelector"], expected, "{name}");
    }
    Ok(())
}

/// `nameOverride` and `fullnameOverride` change the labels and names of the objects, except the
/// names of webhook configurations. The program receives the new names as flags.
#[tokio::test]
async fn objects_can_have_other_names() -> Result<()> {
    let values = json!({
        "nameOverride": "storage", "fullnameOverride": "storage-warden", "serviceMonitor": {"enabled": true},
    });
    let objects = rendered(&values).await?;
    for object in &objects {
        let name = object["metadata"]["name"].as_str().context("a name")?;
        let kind = object["kind"].as_str().context("a kind")?;
        let fixed = kind.ends_with("WebhookConfiguration");
        assert_eq!(name.starts_with("storage-warden"), !fixed, "{kind} {name}");
        let label = &object["metadata"]["labels"]["app.kubernetes.io/name"];
        assert_eq!(label, "storage", "{kind} {name}");
    }
    for (name, webhook) in webhooks(&objects) {
        let service = &webhook["clientConfig"]["service"]["name"];
        assert_eq!(service, "storage-warden", "{name}");
    }
    let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind);
    let selector = &of_kind("Service").context("a Service")?["spec"]["selector"];
    let deployment = of_kind("Deployment").context("a Deployment")?;
    let pod = &deployment["spec"]["template"];
    assert_eq!(*selector, json!({"app.kubernetes.io/name": "storage"}));
    assert_eq!(
        pod["metadata"]["labels"]["app.kubernetes.io/name"],
        "storage"
    );
    assert_eq!(pod["spec"]["serviceAccountName"], "storage-warden");
    let spread = &pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"];
    assert_eq!(spread, selector);

    let arguments = &pod["spec"]["containers"][0]["args"];
    let arguments: Vec<String> = serde_json::from_value(arguments.clone())?;
    for flag in [
        "--service-name=storage-warden",
        "--tls-secret-name=storage-warden-tls",
        "--webhook-path-secret=storage-warden-serving",
    ] {
        ensure!(
            arguments.iter().any(|argument| argument == flag),
            "{arguments:?}"
        );
    }
    let output = Command::new(BINARY)
        .args(&arguments)
        .arg("--help")
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(())
}
