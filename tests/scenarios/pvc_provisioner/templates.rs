//! From the text to the claim: what the user wrote, and what is not the user's to say.

use super::patient::Patient;
use super::support::{ID, LABEL, TEMPLATE, annotations};
use anyhow::Result;
use kube::ResourceExt;
use serde_json::{Value, json};

fn template(text: &str) -> Value {
    annotations(&[("data.pvc", Some(text))])
}

/// DP-01, DP-02, DP-14: as it is written, in the pod's namespace, the pod's, and one event. Own labels and annotations are kept.
#[tokio::test]
async fn a_claim_is_made_as_it_is_written() -> Result<()> {
    let patient = Patient::new("written").await?;
    let askers = &patient.askers;
    let _warden = patient.start().await?;
    let json = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"labels": {"team": "blue", LABEL: "somebody-else"}, "annotations": {"example.com/why": "cache"}, "finalizers": ["example.com/own"]},
        "spec": {
            "accessModes": ["ReadWriteMany"], "storageClassName": "nobody", "volumeMode": "Block",
            "resources": {"requests": {"storage": "3Gi"}}, "selector": {"matchLabels": {"disk": "fast"}},
        },
    });
    let of_yaml = askers.ask("yaml", "from-yaml", json!({})).await?;
    let of_json = askers
        .ask("json", "from-json", template(&json.to_string()))
        .await?;

    let claim = askers.belongs("from-yaml", &of_yaml).await?;
    let spec = json!(claim.spec);
    assert_eq!(
        spec,
        json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "nobody", "volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}})
    );
    let claim = askers.belongs("from-json", &of_json).await?;
    assert_eq!(json!(claim.spec), json["spec"]);
    assert_eq!(json!(claim.labels()), json!({"team": "blue", LABEL: ID}));
    assert_eq!(
        json!(claim.annotations()),
        json!({"example.com/why": "cache"})
    );
    assert_eq!(
        claim.finalizers(),
        ["example.com/own", "kubernetes.io/pvc-protection"]
    );

    askers.settled().await?;
    for (pod, claim) in [("yaml", "from-yaml"), ("json", "from-json")] {
        askers.is_told(pod, "PVCProvisioned", claim).await?;
        assert_eq!(askers.told(pod).await?.len(), 1);
    }
    Ok(())
}

/// DP-13: name, namespace, owners and what the API server sets are not the template's.
#[tokio::test]
async fn what_is_not_the_templates_to_say_does_not_count() -> Result<()> {
    let patient = Patient::new("overridden").await?;
    let askers = &patient.askers;
    let _warden = patient.start().await?;
    let text = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "other", "namespace": "default", "generateName": "other-", "uid": "6d1a2a3c-0000-4000-8000-000000000000", "resourceVersion": "7",
            "creationTimestamp": "2020-01-01T00:00:00Z", "deletionTimestamp": "2020-01-01T00:00:00Z", "generation": 7, "managedFields": [], "selfLink": "/x",
            "annotations": {"volume-warden.dev/awaiting-pod": "2020-01-01T00:00:00Z"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "6d1a2a3c-0000-4000-8000-000000000001"}],
        },
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "nobody", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound"},
    });
    let pod = askers
        .ask("pod", "data", template(&text.to_string()))
        .await?;
    let claim = askers.belongs("data", &pod).await?;
    assert!(claim.metadata.deletion_timestamp.is_none());
    assert_eq!(json!(claim.annotations()), json!({}));
    assert_eq!(askers.claims().await?, ["data"]);
    Ok(())
}

/// DP-15, DP-16: a field that is unknown here reaches the API server, whose refusal the user is told, with its place in the text. It is
/// not asked again and again.
#[tokio::test]
async fn an_unknown_field_is_the_api_servers_to_judge() -> Result<()> {
    let patient = Patient::new("unknown-field").await?;
    let askers = &patient.askers;
    let _warden = patient.start().await?;
    let misspelt = TEMPLATE.replace("storageClassName", "storageclassName");
    let nested = TEMPLATE.replace("requests", "request");
    askers.ask("misspelt", "a", template(&misspelt)).await?;
    askers.ask("nested", "b", template(&nested)).await?;
    for (pod, field, place) in [
        ("misspelt", "spec.storageclassName", "line 5, column 3"),
        ("nested", "spec.resources.request", "line 6, column 15"),
    ] {
        let message = askers.is_told(pod, "ErrPVCProvisionFailed", place).await?;
        let judged = format!("strict decoding error: unknown field \"{field}\"");
        assert!(message.contains(&judged), "{message}");
    }
    askers.settled().await?;
    assert!(askers.claims().await?.is_empty());
    assert_eq!(patient.posts(), 3, "one for each, and the canary's");
    Ok(())
}
