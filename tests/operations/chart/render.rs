//! Helm and kustomize render the same objects.

use super::{installed, only, section, template};
use crate::support::{
    bare,
    kustomization::{Kustomization, NAMESPACE},
    repository,
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path};

/// Labels that mark an object as part of a release. Kustomize has no equivalent.
const HELM_LABELS: [&str; 3] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
];

/// The component that the chart's default enables wherever there are webhooks.
const RESTRICT: &str = "restrict-service-account";
/// The component that the chart's default enables everywhere.
const NETWORK: &str = "network-policy";

type Objects = BTreeMap<String, Value>;

/// Kinds without a namespace. Kustomize does not know them and adds a namespace, which the API
/// server ignores.
const CLUSTER_SCOPED: [&str; 4] = [
    "FlowSchema",
    "PriorityLevelConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

fn objects(text: &str) -> Result<Objects> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    let mut objects = Objects::new();
    for mut object in documents.into_iter().filter(Value::is_object) {
        if CLUSTER_SCOPED.iter().any(|kind| object["kind"] == *kind) {
            let metadata = object["metadata"].as_object_mut();
            metadata.context("no metadata")?.remove("namespace");
        }
        let part = |pointer| object.pointer(pointer).and_then(Value::as_str);
        let name = part("/metadata/name").context("an object without a name")?;
        let namespace = part("/metadata/namespace").unwrap_or_default();
        let version = part("/apiVersion").context("an object without a version")?;
        let kind = part("/kind").context("an object without a kind")?;
        let key = format!("{version} {kind} {namespace}/{name}");
        let twice = objects.insert(key.clone(), object);
        ensure!(twice.is_none(), "{key} is rendered twice");
    }
    Ok(objects)
}

async fn kustomized(directory: &Path) -> Result<Objects> {
    let directory = directory.to_string_lossy();
    let text = bare().await?.kubectl(&["kustomize", &directory]).await?;
    let mut objects = objects(&text)?;
    let (all, is_namespace) = (objects.len(), |object: &Value| {
        object["kind"] == "Namespace"
    });
    objects.retain(|_, object| !is_namespace(object));
    ensure!(
        all == objects.len() + 1,
        "Helm makes the one Namespace itself, or finds it"
    );
    Ok(objects)
}

async fn charted(values: &Value, namespace: &str) -> Result<Objects> {
    let mut objects = objects(&template(values, namespace).await?)?;
    for (key, object) in &mut objects {
        let labels = object.pointer_mut("/metadata/labels");
        let labels = labels.and_then(Value::as_object_mut);
        let labels = labels.with_context(|| format!("{key} has no labels"))?;
        for label in HELM_LABELS {
            ensure!(labels.remove(label).is_some(), "{key} has no label {label}");
        }
    }
    Ok(objects)
}

/// Every path at which the two values differ.
fn differences(path: &str, kustomize: &Value, helm: &Value) -> Vec<String> {
    let at = |key: &dyn std::fmt::Display| format!("{path}/{key}");
    match (kustomize, helm) {
        (Value::Object(left), Value::Object(right)) => {
            let keys = left
                .keys()
                .chain(right.keys().filter(|key| !left.contains_key(*key)));
            keys.flat_map(|key| differences(&at(key), &kustomize[key], &helm[key]))
                .collect()
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let pairs = left.iter().zip(right).enumerate();
            pairs
                .flat_map(|(index, (left, right))| differences(&at(&index), left, right))
                .collect()
        }
        _ if kustomize == helm => vec![],
        _ => vec![format!("{path}: kustomize {kustomize}, helm {helm}")],
    }
}

async fn same(directory: &Path, values: &Value, namespace: &str) -> Result<()> {
    let (kustomize, helm) = (
        kustomized(directory).await?,
        charted(values, namespace).await?,
    );
    let all = differences("", &json!(kustomize), &json!(helm));
    ensure!(
        all.is_empty() && !helm.is_empty(),
        "{values} in {namespace}:\n{}",
        all.join("\n")
    );
    Ok(())
}

async fn same_as_overlay(overlay: &str, values: Value, namespace: &str) -> Result<()> {
    let overlays = repository().join("manifests/overlays");
    same(&overlays.join(overlay), &values, namespace).await
}

#[tokio::test]
async fn the_chart_renders_what_the_overlays_render() -> Result<()> {
    same_as_overlay("self-signed", json!({}), NAMESPACE).await?;
    let cert_manager = json!({"tls": {"mode": "certManager"}});
    same_as_overlay("cert-manager", cert_manager, NAMESPACE).await?;
    for component in ["pvc-provisioner", "pv-releaser"] {
        same_as_overlay(component, only(&[component]), component).await?;
    }
    same_as_overlay("protection", json!({"onlyProtection": true}), NAMESPACE).await?;
    // What the sections of the other components say has no effect.
    let configured = json!({
        "onlyProtection": true,
        "pvcProvisioner": {"enabled": true, "authorizeRequester": "pod-creator"},
        "pvReleaser": {"enabled": true, "associateByStorageClass": true},
        "namespaceGc": {"enabled": true, "storageBackend": "storageos", "gcScope": "seen"},
    });
    same_as_overlay("protection", configured, NAMESPACE).await?;
    let mut storageos = only(&["namespace-gc"]);
    storageos["namespaceGc"]["storageBackend"] = json!("storageos");
    same_as_overlay("namespace-gc-storageos", storageos, "namespace-gc").await
}

#[tokio::test]
async fn each_component_alone_is_the_same() -> Result<()> {
    for component in installed() {
        // This component has no webhooks, and so no certificate.
        let kustomization = if component == "namespace-gc" {
            Kustomization::of(&[NETWORK, component], "alone")?
        } else {
            Kustomization::of(&["self-signed", NETWORK, component, RESTRICT], "alone")?
        };
        same(kustomization.path(), &only(&[component]), "alone").await?;
    }
    Ok(())
}

/// Each value, and the kustomize component that enables the same beside all others.
#[tokio::test]
async fn each_option_is_the_same() -> Result<()> {
    let options = [
        ("pvc-expiry", json!({"pvcExpiry": {"enabled": true}})),
        ("trash-list", json!({"trashList": {"enabled": true}})),
        (
            "pvc-protection-binding-guard",
            json!({"pvcProtection": {"bindingGuard": true}}),
        ),
        (
            "namespace-gc-seen",
            json!({"namespaceGc": {"gcScope": "seen"}}),
        ),
        (
            "namespace-gc-storageos",
            json!({"namespaceGc": {"storageBackend": "storageos"}}),
        ),
        (
            "namespace-gc-directory",
            json!({"namespaceGc": {"storageBackend": "directory"}}),
        ),
        (
            "client-ca",
            json!({"tls": {"clientCA": {"configMapName": "volume-warden-client-ca"}}}),
        ),
        ("priority-class", json!({"priorityClass": {"create": true}})),
        (
            "service-monitor",
            json!({"serviceMonitor": {"enabled": true}}),
        ),
        (
            "owner-references",
            json!({"ownerReferencesPermissionEnforcement": {"enabled": true}}),
        ),
        (
            "metrics-authorization",
            json!({"metricsAuthorization": {"enabled": true}}),
        ),
    ];
    for (component, values) in options {
        let all = [
            &["self-signed", NETWORK][..],
            &installed(),
            &[RESTRICT, component],
        ]
        .concat();
        let kustomization = Kustomization::of(&all, NAMESPACE)?;
        same(kustomization.path(), &values, NAMESPACE).await?;
    }
    let monitored = [RESTRICT, "service-monitor", "metrics-authorization"];
    let all = [&["self-signed", NETWORK][..], &installed(), &monitored].concat();
    let values =
        json!({"serviceMonitor": {"enabled": true}, "metricsAuthorization": {"enabled": true}});
    let kustomization = Kustomization::of(&all, "elsewhere")?;
    same(kustomization.path(), &values, "elsewhere").await?;
    let options = [
        (
            "pvc-provisioner",
            "pvc-provisioner-authorize-requester",
            json!({"authorizeRequester": "pod-creator"}),
        ),
        (
            "pv-releaser",
            "pv-releaser-storage-classes",
            json!({"associateByStorageClass": true}),
        ),
    ];
    for (component, option, value) in options {
        let kustomization = Kustomization::of(
            &["self-signed", NETWORK, component, option, RESTRICT],
            NAMESPACE,
        )?;
        let mut values = only(&[component]);
        json_patch::merge(&mut values[section(component)], &value);
        same(kustomization.path(), &values, NAMESPACE).await?;
    }
    Ok(())
}

/// `manifests/monitoring`, and the values that enable the same objects.
#[tokio::test]
async fn the_monitoring_objects_are_the_same() -> Result<()> {
    let directory = repository().join("manifests/monitoring");
    let directory = directory.to_string_lossy();
    let text = bare().await?.kubectl(&["kustomize", &directory]).await?;
    let kustomize = objects(&text)?;
    let enabled = json!({"enabled": true});
    let values =
        json!({"serviceMonitor": enabled, "prometheusRule": enabled, "dashboards": enabled});
    let mut helm = charted(&values, NAMESPACE).await?;
    helm.retain(|key, _| kustomize.contains_key(key));
    let all = differences("", &json!(kustomize), &json!(helm));
    ensure!(all.is_empty(), "{}", all.join("\n"));
    assert_eq!(kustomize.len(), 3);
    Ok(())
}
