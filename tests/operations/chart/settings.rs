//! Values about the installation reach their fields. Kustomize uses patches for these fields, so
//! no component is compared.

use super::template;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

async fn rendered(values: &Value) -> Result<Vec<Value>> {
    let text = template(values, "volume-warden").await?;
    Ok(serde_saphyr::from_multiple(&text)?)
}

/// The object of this kind with the program's name; null if there is none.
fn find(objects: &[Value], kind: &str) -> Value {
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
        "image": {"repository": "example.com/warden", "digest": DIGEST, "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "replicas": 3,
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        "podDisruptionBudget": {"maxUnavailable": "50%"},
        "priorityClass": {"create": false, "name": "system-cluster-critical"},
        "topologySpreadConstraints": [],
        "tolerations": [{"key": "storage"}],
        "affinity": {"nodeAffinity": {}},
        "nodeSelector": {"pool": "system"},
        "networkPolicy": {"enabled": true, "webhooksFrom": peers},
        "serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}},
        "serviceAccount": {"annotations": {"example.com/role": "warden"}},
        "extraEnv": [{"name": "RUST_LOG", "value": "debug"}],
        "extraArgs": ["--dry-run"],
        "commonLabels": {"team": "storage"},
        "podAnnotations": {"example.com/note": "mine"},
        "tls": {"mode": "certManager", "certManager": {"issuerRef": {"name": "ca", "kind": "ClusterIssuer"}}},
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
            format!("{container}/args/9"),
            json!("--dry-run"),
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

/// The Secret is mounted and its CA published; no right to Secrets is granted. The existing
/// account receives the other rights.
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
    assert_eq!((webhooks.len(), published.count()), (12, 12));
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
