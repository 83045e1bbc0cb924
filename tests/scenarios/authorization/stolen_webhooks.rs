//! Which writes of webhook configurations a stolen token of Volume Warden's service account
//! permits.

use super::stolen_token::{StolenToken, Write, dry_run_delete, owner, patch};
use crate::support::{Space, bare};
use anyhow::{Context, Result, ensure};
use http::Method;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use serde_json::{Value, json};

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const NAME: &str = "volume-warden-pvc-protection";
const PUBLISH: &str = "may only publish the path and the CA";

fn change(operation: &str, path: &str, value: &Value) -> Write {
    let change = json!([{"op": operation, "path": path, "value": value}]);
    patch(&format!("{CONFIGURATIONS}/{NAME}"), change)
}

fn set(field: &str, value: &Value) -> Write {
    change("add", &format!("/webhooks/0/{field}"), value)
}

fn repeated(generation: &str) -> Write {
    let annotations = json!({"volume-warden.dev/repeated-generation": generation});
    let change = json!({"metadata": {"annotations": annotations}});
    patch(&format!("{CONFIGURATIONS}/{NAME}"), change)
}

#[tokio::test]
async fn a_stolen_token_changes_no_webhook_but_as_volume_warden_does() -> Result<()> {
    let space = Space::new(bare().await?, "stolen-webhooks").await?;
    let token = StolenToken::new(&space).await?;
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(space.cluster.client());
    let found = configurations.get(NAME).await?;
    let mut hook = found.webhooks.context("no webhooks")?.remove(0);
    hook.name = format!("other.{}", hook.name);
    let hook = json!(hook);
    let foreign = owner("ConfigMap", "c");
    let mut refused = vec![
        change("remove", "/webhooks/0", &Value::Null),
        change("add", "/webhooks/-", &hook),
        change("add", "/metadata/annotations", &json!({"a": "b"})),
        repeated("1, a secret"),
        change("add", "/metadata/labels/a", &json!("b")),
        change("add", "/metadata/finalizers", &json!(["example.com/hold"])),
        change(
            "add",
            "/metadata/ownerReferences",
            &foreign["metadata"]["ownerReferences"],
        ),
    ];
    for (field, value) in [
        ("name", hook["name"].clone()),
        ("clientConfig", json!({"url": "https://example.com/"})),
        ("clientConfig/service/name", json!("other")),
        ("clientConfig/service/namespace", json!("other")),
        ("clientConfig/service/port", json!(8443)),
        ("rules", json!([])),
        ("failurePolicy", json!("Fail")),
        ("matchPolicy", json!("Exact")),
        ("namespaceSelector", json!({"matchLabels": {"a": "b"}})),
        ("objectSelector", json!({"matchLabels": {"a": "b"}})),
        (
            "matchConditions",
            json!([{"name": "never", "expression": "false"}]),
        ),
        ("sideEffects", json!("NoneOnDryRun")),
        ("timeoutSeconds", json!(30)),
        ("reinvocationPolicy", json!("IfNeeded")),
        ("admissionReviewVersions", json!(["v1", "v1beta1"])),
    ] {
        let current = field.split('/').fold(&hook, |hook, part| &hook[part]);
        ensure!(*current != value || field == "name", "{field} is {value}");
        refused.push(set(field, &value));
    }
    let new = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": space.name}, "webhooks": [hook],
    });
    refused.push((Method::POST, CONFIGURATIONS.to_owned(), new));
    refused.push((
        Method::DELETE,
        format!("{CONFIGURATIONS}/{NAME}"),
        dry_run_delete(),
    ));
    // The roles of Volume Warden do not permit creating or deleting webhook configurations.
    let resource = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
    token.grant("create,delete", resource).await?;
    let refused = refused.into_iter().map(|write| (write, PUBLISH));
    token.all_are_refused(refused.collect()).await?;
    let permitted = vec![
        set(
            "clientConfig/service/path",
            &json!("/secret/pvc-protection/claims"),
        ),
        set("clientConfig/caBundle", &json!("")),
        repeated("1"),
    ];
    token.all_are_permitted(permitted).await
}
