//! From the template to the claim: fields that the user sets, and fields that the user cannot set.

use super::fault_fixture::FaultFixture;
use super::support::{ID, LABEL, TEMPLATE, annotations};
use anyhow::Result;
use kube::ResourceExt;
use serde_json::{Value, json};

fn template(text: &str) -> Value {
    annotations(&[("data.pvc", Some(text))])
}

/// DP-01, DP-02, DP-14: the claim equals its template, is in the pod's namespace, owned by the
/// pod, with one event. The template's labels and annotations are kept.
#[tokio::test]
async fn a_claim_is_created_from_its_template() -> Result<()> {
    let fixture = FaultFixture::new("written").await?;
    let askers = &fixture.askers;
    // The shipped policy permits the default fields only, so an administrator creates the claim.
    let builder = fixture
        .builder("warden")
        .kubeconfig(fixture.askers.space.cluster.kubeconfig());
    let builder = builder.arg("--template-fields=finalizers,selector");
    let _warden = builder.start().await?;
    let json = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"labels": {"team": "blue", LABEL: "another-id"}, "annotations": {"example.com/why": "cache"}, "finalizers": ["example.com/own"]},
        "spec": {
            "accessModes": ["ReadWriteMany"], "storageClassName": "absent", "volumeMode": "Block",
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
        json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "absent", "volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}})
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
        askers.has_event(pod, "PVCProvisioned", claim).await?;
        assert_eq!(askers.pod_events(pod).await?.len(), 1);
    }
    Ok(())
}

/// DP-13: name, namespace, owners and fields that the API server sets are ignored in a template.
#[tokio::test]
async fn fields_that_a_template_cannot_set_are_ignored() -> Result<()> {
    let fixture = FaultFixture::new("overridden").await?;
    let askers = &fixture.askers;
    let _warden = fixture.start().await?;
    let text = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "other", "namespace": "default", "generateName": "other-", "uid": "6d1a2a3c-0000-4000-8000-000000000000", "resourceVersion": "7",
            "creationTimestamp": "2020-01-01T00:00:00Z", "deletionTimestamp": "2020-01-01T00:00:00Z", "generation": 7, "managedFields": [], "selfLink": "/x",
            "annotations": {"volume-warden.dev/awaiting-pod": "2020-01-01T00:00:00Z"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "6d1a2a3c-0000-4000-8000-000000000001"}],
        },
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "absent", "resources": {"requests": {"storage": "1Gi"}}},
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

/// DP-15, DP-16: an unknown field reaches the API server; an Event has its refusal with the
/// position in the template. The request is not retried repeatedly.
#[tokio::test]
async fn an_unknown_field_is_validated_by_the_api_server() -> Result<()> {
    let fixture = FaultFixture::new("unknown-field").await?;
    let askers = &fixture.askers;
    let _warden = fixture.start().await?;
    let misspelt = TEMPLATE.replace("storageClassName", "storageclassName");
    let nested = TEMPLATE.replace("requests", "request");
    askers.ask("misspelt", "a", template(&misspelt)).await?;
    askers.ask("nested", "b", template(&nested)).await?;
    for (pod, field, place) in [
        ("misspelt", "spec.storageclassName", "line 5, column 3"),
        ("nested", "spec.resources.request", "line 6, column 15"),
    ] {
        let message = askers
            .has_event(pod, "ErrPVCProvisionFailed", place)
            .await?;
        let judged = format!("strict decoding error: unknown field \"{field}\"");
        assert!(message.contains(&judged), "{message}");
    }
    askers.settled().await?;
    assert!(askers.claims().await?.is_empty());
    assert_eq!(fixture.posts(), 3, "one for each, and the canary's");
    Ok(())
}

/// Every user who may create pods can write a template. It must not bind a volume of another tenant,
/// read another claim's data, or leave a claim that cannot be deleted.
#[tokio::test]
async fn a_template_cannot_reach_beyond_a_new_claim() -> Result<()> {
    let fixture = FaultFixture::new("beyond").await?;
    let askers = &fixture.askers;
    let builder = fixture.builder("warden");
    let _warden = builder
        .arg("--allowed-storage-classes=absent")
        .start()
        .await?;
    let bound = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "other"}});
    let cloned = json!({"kind": "PersistentVolumeClaim", "name": "other"});
    for (pod, change, part) in [
        (
            "bound",
            bound,
            "annotation \"pv.kubernetes.io/bind-completed\"",
        ),
        (
            "pinned",
            json!({"metadata": {"finalizers": ["example.com/never"]}}),
            "metadata.finalizers",
        ),
        (
            "named",
            json!({"spec": {"volumeName": "other"}}),
            "spec.volumeName",
        ),
        (
            "selected",
            json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}),
            "spec.selector",
        ),
        (
            "cloned",
            json!({"spec": {"dataSource": cloned}}),
            "spec.dataSource",
        ),
        (
            "cloned-by-reference",
            json!({"spec": {"dataSourceRef": cloned}}),
            "spec.dataSourceRef",
        ),
        (
            "gold",
            json!({"spec": {"storageClassName": "gold"}}),
            "StorageClass \"gold\"",
        ),
        (
            "any-class",
            json!({"spec": {"storageClassName": null}}),
            "must name one of the allowed",
        ),
    ] {
        let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "absent", "resources": {"requests": {"storage": "1Gi"}}}});
        json_patch::merge(&mut claim, &change);
        askers.ask(pod, pod, template(&claim.to_string())).await?;
        askers.has_event(pod, "ErrInvalidPVC", part).await?;
    }
    askers.settled().await?;
    assert!(askers.claims().await?.is_empty());
    assert_eq!(fixture.posts(), 1, "the canary's");
    Ok(())
}
