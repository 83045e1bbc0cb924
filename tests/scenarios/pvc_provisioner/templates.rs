//! Claims that are created from templates: fields that a template can set, and fields that it
//! cannot set.

use super::fault_fixture::{FaultFixture, retries_since};
use super::support::{CONTROLLER_ID, MANAGED_BY, TEMPLATE, annotations};
use anyhow::Result;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::time::Instant;

fn template(text: &str) -> Value {
    annotations(&[("data.pvc", Some(text))])
}

/// DP-01, DP-02, DP-14: the claim equals its template, is in the namespace of the pod, is owned by
/// the pod, and has the labels and annotations of the template. The pod has one Event.
#[tokio::test]
async fn a_claim_is_created_from_its_template() -> Result<()> {
    let fixture = FaultFixture::new("written").await?;
    let pod_space = &fixture.pod_space;
    // The shipped policy permits only the default fields, so Volume Warden runs with the
    // permissions of an administrator.
    let builder = fixture
        .builder("warden")
        .kubeconfig(fixture.pod_space.space.cluster.kubeconfig());
    let builder = builder.arg("--template-fields=finalizers,selector");
    let _warden = builder.start().await?;
    let json = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"labels": {"team": "blue", MANAGED_BY: "another-id"}, "annotations": {"example.com/why": "cache"}, "finalizers": ["example.com/own"]},
        "spec": {
            "accessModes": ["ReadWriteMany"], "storageClassName": "absent", "volumeMode": "Block",
            "resources": {"requests": {"storage": "3Gi"}}, "selector": {"matchLabels": {"disk": "fast"}},
        },
    });
    let yaml_pod = pod_space
        .request_claim("yaml", "from-yaml", json!({}))
        .await?;
    let json_pod = pod_space
        .request_claim("json", "from-json", template(&json.to_string()))
        .await?;

    let claim = pod_space.belongs("from-yaml", &yaml_pod).await?;
    let spec = json!(claim.spec);
    assert_eq!(
        spec,
        json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "absent", "volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}})
    );
    let claim = pod_space.belongs("from-json", &json_pod).await?;
    assert_eq!(json!(claim.spec), json["spec"]);
    assert_eq!(
        json!(claim.labels()),
        json!({"team": "blue", MANAGED_BY: CONTROLLER_ID})
    );
    assert_eq!(
        json!(claim.annotations()),
        json!({"example.com/why": "cache"})
    );
    assert_eq!(
        claim.finalizers(),
        ["example.com/own", "kubernetes.io/pvc-protection"]
    );

    pod_space.wait_until_processed().await?;
    for (pod, claim) in [("yaml", "from-yaml"), ("json", "from-json")] {
        pod_space.has_event(pod, "PVCProvisioned", claim).await?;
        assert_eq!(pod_space.pod_events(pod).await?.len(), 1);
    }
    Ok(())
}

/// DP-13: the name, the namespace, the owners, the marker and the fields that the API server sets
/// are ignored in a template.
#[tokio::test]
async fn fields_that_a_template_cannot_set_are_ignored() -> Result<()> {
    let fixture = FaultFixture::new("overridden").await?;
    let pod_space = &fixture.pod_space;
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
    let pod = pod_space
        .request_claim("pod", "data", template(&text.to_string()))
        .await?;
    let claim = pod_space.belongs("data", &pod).await?;
    assert!(claim.metadata.deletion_timestamp.is_none());
    assert_eq!(json!(claim.annotations()), json!({}));
    assert_eq!(pod_space.claim_names().await?, ["data"]);
    Ok(())
}

/// DP-15, DP-16: Volume Warden sends an unknown field to the API server, which refuses it. An Event
/// contains the refusal and the position in the template. Volume Warden does not retry the POST
/// repeatedly.
#[tokio::test]
async fn an_unknown_field_is_validated_by_the_api_server() -> Result<()> {
    let fixture = FaultFixture::new("unknown-field").await?;
    let pod_space = &fixture.pod_space;
    let _warden = fixture.start().await?;
    let misspelt = TEMPLATE.replace("storageClassName", "storageclassName");
    let nested = TEMPLATE.replace("requests", "request");
    let began = Instant::now();
    pod_space
        .request_claim("misspelt", "a", template(&misspelt))
        .await?;
    pod_space
        .request_claim("nested", "b", template(&nested))
        .await?;
    for (pod, field, position) in [
        ("misspelt", "spec.storageclassName", "line 5, column 3"),
        ("nested", "spec.resources.request", "line 6, column 15"),
    ] {
        let message = pod_space
            .has_event(pod, "ErrPVCProvisionFailed", position)
            .await?;
        let refusal = format!("strict decoding error: unknown field \"{field}\"");
        assert!(message.contains(&refusal), "{message}");
    }
    pod_space.wait_until_processed().await?;
    assert!(pod_space.claim_names().await?.is_empty());
    // One for each claim and the canary's claim.
    let posts = fixture.posts();
    assert!(
        (3..=3 + 2 * retries_since(began)).contains(&posts),
        "{posts}"
    );
    Ok(())
}

/// Every user who may create pods can write a template. A template must not bind a volume of
/// another tenant, clone the data of another claim, or create a claim that cannot be deleted.
#[tokio::test]
async fn a_template_cannot_use_other_volumes_or_claims() -> Result<()> {
    let fixture = FaultFixture::new("beyond").await?;
    let pod_space = &fixture.pod_space;
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
        pod_space
            .request_claim(pod, pod, template(&claim.to_string()))
            .await?;
        pod_space.has_event(pod, "ErrInvalidPVC", part).await?;
    }
    pod_space.wait_until_processed().await?;
    assert!(pod_space.claim_names().await?.is_empty());
    assert_eq!(fixture.posts(), 1, "only the canary's claim");
    Ok(())
}
