//! Every template is either refused with a short message or accepted; an accepted one results in a
//! claim with the requested name, owner, label and marks.

#![no_main]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use volume_warden::components::pvc_provisioner::template::{ClaimFields, Template};

const HEAD: &str = "apiVersion: v1\nkind: PersistentVolumeClaim\n";
const LABEL: &str = "dynamic-pvc-provisioner.kubernetes.io/managed-by";
const MARK: &str = "volume-warden.dev/awaiting-pod";

// Checks the text alone, and the text after the first two fields of a claim: few random texts
// contain these fields.
fuzz_target!(|text: &str| {
    check(text);
    check(&format!("{HEAD}{text}"));
});

fn check(text: &str) {
    match Template::parse(text) {
        Ok(template) => {
            for field in template.unknown_fields() {
                assert_short(&field.to_string());
                assert!(field.line >= 1 && field.column >= 1);
                assert!(field.line <= 1 + text.matches(['\n', '\r']).count() as u64);
            }
            made(&template, None, None);
            let manifest = made(&template, Some(pod()), Some("2026-01-01T00:00:00Z"));
            assert_is_the_same_as_json(text, &manifest);
        }
        Err(error) => assert_short(&error.to_string()),
    }
}

/// Returns the manifest, and checks every field that must not depend on the template.
fn made(template: &Template, owner: Option<OwnerReference>, awaiting_since: Option<&str>) -> Value {
    let owners = owner.as_ref().map(|owner| json!([owner]));
    let manifest = template.manifest(&ClaimFields {
        namespace: "builds",
        name: "cache",
        controller_id: "us",
        owner,
        awaiting_since,
    });
    let metadata = &manifest["metadata"];
    assert_eq!(manifest["apiVersion"], "v1");
    assert_eq!(manifest["kind"], "PersistentVolumeClaim");
    assert_eq!(metadata["name"], "cache");
    assert_eq!(metadata["namespace"], "builds");
    assert_eq!(metadata["labels"][LABEL], "us");
    assert_eq!(metadata.get("ownerReferences"), owners.as_ref());
    let finalizers = metadata["finalizers"].as_array().expect("finalizers");
    assert!(
        finalizers
            .iter()
            .any(|each| each == "kubernetes.io/pvc-protection")
    );
    let annotations = metadata["annotations"].as_object().into_iter().flatten();
    let own: Vec<_> = annotations
        .filter(|(key, _)| key.starts_with("volume-warden.dev/"))
        .collect();
    let mark = awaiting_since.map(|since| (MARK.to_owned(), json!(since)));
    assert_eq!(
        own,
        Vec::from_iter(mark.as_ref().map(|(key, value)| (key, value)))
    );
    for absent in [
        "uid",
        "resourceVersion",
        "generateName",
        "deletionTimestamp",
    ] {
        assert_eq!(metadata.get(absent), None);
    }
    assert_eq!(manifest.get("status"), None);
    serde_json::to_vec(&manifest).expect("serialises");
    manifest
}

/// Checks that a text that is valid JSON has the same meaning as in JSON.
fn assert_is_the_same_as_json(text: &str, manifest: &Value) {
    let Ok(Value::Object(json)) = serde_json::from_str(text) else {
        return;
    };
    for (field, value) in json {
        if field != "metadata" && field != "status" {
            assert!(
                same(&value, &manifest[&field]),
                "{value} is read as {}",
                manifest[&field]
            );
        }
    }
}

/// Whether the values are equal. Two parsers may differ in the last digit of a number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= a.abs() * 1e-9,
            _ => false,
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

fn assert_short(sentence: &str) {
    assert!(sentence.chars().count() <= 200, "{sentence}");
    assert!(!sentence.contains(char::is_control), "{sentence:?}");
}

fn pod() -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: "build".to_owned(),
        uid: "pod-uid".to_owned(),
        ..OwnerReference::default()
    }
}
