//! Helm and kustomize render the same objects.

use super::{COMPONENTS, default_components, only, section, template, values::chart_file};
use crate::support::{
    kustomization::{Kustomization, NAMESPACE},
    manifests::{CLUSTER_SCOPED, rendered},
    repository,
};
use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Labels that mark an object as part of a release. Kustomize has no equivalent.
const HELM_LABELS: [&str; 3] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
];

/// The kustomize component that the chart enables by default if there are webhooks.
const RESTRICT: &str = "restrict-service-account";
/// The kustomize component that the chart always enables by default.
const NETWORK: &str = "network-policy";

type Objects = BTreeMap<String, Value>;

fn objects(text: &str) -> Result<Objects> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    let mut objects = Objects::new();
    for mut object in documents.into_iter().filter(Value::is_object) {
        if CLUSTER_SCOPED.iter().any(|kind| object["kind"] == *kind) {
            let metadata = object["metadata"].as_object_mut();
            metadata.context("no metadata")?.remove("namespace");
        }
        let field = |pointer| object.pointer(pointer).and_then(Value::as_str);
        let name = field("/metadata/name").context("an object without a name")?;
        let namespace = field("/metadata/namespace").unwrap_or_default();
        let version = field("/apiVersion").context("an object without a version")?;
        let kind = field("/kind").context("an object without a kind")?;
        let key = format!("{version} {kind} {namespace}/{name}");
        let duplicate = objects.insert(key.clone(), object);
        ensure!(duplicate.is_none(), "{key} is rendered twice");
    }
    Ok(objects)
}

async fn rendered_by_kustomize(directory: &Path) -> Result<Objects> {
    let mut objects = objects(&rendered(directory).await?)?;
    let (all, is_namespace) = (objects.len(), |object: &Value| {
        object["kind"] == "Namespace"
    });
    objects.retain(|_, object| !is_namespace(object));
    ensure!(
        all == objects.len() + 1,
        "kustomize renders exactly one Namespace, which the chart does not render"
    );
    Ok(objects)
}

async fn rendered_by_helm(values: &Value, namespace: &str) -> Result<Objects> {
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

async fn check_same(directory: &Path, values: &Value, namespace: &str) -> Result<()> {
    let (kustomize, helm) = (
        rendered_by_kustomize(directory).await?,
        rendered_by_helm(values, namespace).await?,
    );
    let all = differences("", &json!(kustomize), &json!(helm));
    ensure!(
        all.is_empty() && !helm.is_empty(),
        "{values} in {namespace}:\n{}",
        all.join("\n")
    );
    Ok(())
}

async fn check_same_as_overlay(overlay: &str, values: Value, namespace: &str) -> Result<()> {
    let overlays = repository().join("manifests/overlays");
    check_same(&overlays.join(overlay), &values, namespace).await
}

#[tokio::test]
async fn the_chart_renders_what_the_overlays_render() -> Result<()> {
    check_same_as_overlay("self-signed", json!({}), NAMESPACE).await?;
    let cert_manager = json!({"tls": {"mode": "certManager"}});
    check_same_as_overlay("cert-manager", cert_manager, NAMESPACE).await?;
    for component in ["pvc-provisioner", "pv-releaser"] {
        check_same_as_overlay(component, only(&[component]), component).await?;
    }
    check_same_as_overlay("protection", json!({"onlyProtection": true}), NAMESPACE).await?;
    // With onlyProtection, the sections of the other components have no effect.
    let configured = json!({
        "onlyProtection": true,
        "pvcProvisioner": {"enabled": true, "authorizeRequester": "pod-creator"},
        "pvReleaser": {"enabled": true, "associateByStorageClass": true},
        "namespaceGc": {"enabled": true, "storageBackend": "storageos", "gcScope": "seen"},
    });
    check_same_as_overlay("protection", configured, NAMESPACE).await?;
    let mut storageos = only(&["namespace-gc"]);
    storageos["namespaceGc"]["storageBackend"] = json!("storageos");
    check_same_as_overlay("namespace-gc-storageos", storageos, "namespace-gc").await
}

#[tokio::test]
async fn each_component_alone_is_the_same() -> Result<()> {
    for component in default_components() {
        // This component has no webhooks, and so no certificate.
        let kustomization = if component == "namespace-gc" {
            Kustomization::of(&[NETWORK, component], "alone")?
        } else {
            Kustomization::of(&["self-signed", NETWORK, component, RESTRICT], "alone")?
        };
        check_same(kustomization.path(), &only(&[component]), "alone").await?;
    }
    Ok(())
}

/// The kustomize components that no comparison enables alone or as an option, and why.
const NOT_OPTIONS: [(&str, &str); 5] = [
    (
        "self-signed",
        "the default, in all comparisons with webhooks",
    ),
    ("webhook-path", "a part of self-signed"),
    (NETWORK, "the default, in all comparisons"),
    (RESTRICT, "the default, in all comparisons with webhooks"),
    (
        "pvc-trash-admission-policy",
        "needs Kubernetes 1.36; it refers to no object of an installation, and is applied separately",
    ),
];

/// Kustomize components that are options of an installation of all default components, and the
/// values that enable the same objects.
fn options() -> Vec<(&'static str, Value)> {
    vec![
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
    ]
}

/// A component, a kustomize component that is an option of this one, and the values in its section
/// that enable the same objects.
fn options_of_one_component() -> Vec<(&'static str, &'static str, Value)> {
    vec![
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
    ]
}

/// The names of the directories in `manifests/<folder>`.
fn directories(folder: &str) -> Result<BTreeSet<String>> {
    let entries = fs::read_dir(repository().join("manifests").join(folder))?;
    let directories = entries.flatten().filter(|entry| entry.path().is_dir());
    let names = directories.map(|entry| entry.file_name().into_string());
    names
        .collect::<Result<_, _>>()
        .map_err(|name| anyhow!("{name:?} is not UTF-8"))
}

/// Every kustomize component is compared with values of the chart, or [`NOT_OPTIONS`] states why it
/// is not.
#[test]
fn every_kustomize_component_is_compared() -> Result<()> {
    let mut compared: Vec<&str> = COMPONENTS.to_vec();
    compared.extend(options().iter().map(|(name, _)| *name));
    compared.extend(options_of_one_component().iter().map(|(_, name, _)| *name));
    compared.extend(NOT_OPTIONS.map(|(name, reason)| {
        assert!(!reason.is_empty(), "{name}");
        name
    }));
    let compared: BTreeSet<_> = compared.into_iter().map(str::to_owned).collect();
    let all = directories("components")?;
    assert_eq!(
        all, compared,
        "left: the directories in manifests/components"
    );
    Ok(())
}

/// The table in the README of the chart has a row for each overlay and each kustomize component. A
/// component that is installed by default needs none: the values have a section of its name.
#[test]
fn the_readme_lists_every_overlay_and_component() -> Result<()> {
    let readme = chart_file("README.md")?;
    let (_, table) = readme
        .split_once("\n## Beside kustomize\n")
        .context("no table")?;
    let (table, _) = table
        .split_once("\n\nWith these values")
        .context("no end")?;
    let overlays = directories("overlays")?.into_iter();
    let mut expected: Vec<_> = overlays.map(|name| format!("overlays/{name}")).collect();
    let components = directories("components")?.into_iter();
    expected.extend(components.filter(|name| !default_components().contains(&name.as_str())));
    for name in expected {
        ensure!(table.contains(&format!("`{name}`")), "no row for {name}");
    }
    Ok(())
}

#[tokio::test]
async fn each_option_is_the_same() -> Result<()> {
    for (component, values) in options() {
        let all = [
            &["self-signed", NETWORK][..],
            &default_components(),
            &[RESTRICT, component],
        ]
        .concat();
        // In another namespace, the transformer own-namespace also changes the objects of the
        // option.
        for namespace in [NAMESPACE, "elsewhere"] {
            let kustomization = Kustomization::of(&all, namespace)?;
            check_same(kustomization.path(), &values, namespace).await?;
        }
    }
    let monitored = [RESTRICT, "service-monitor", "metrics-authorization"];
    let all = [
        &["self-signed", NETWORK][..],
        &default_components(),
        &monitored,
    ]
    .concat();
    let values =
        json!({"serviceMonitor": {"enabled": true}, "metricsAuthorization": {"enabled": true}});
    let kustomization = Kustomization::of(&all, "elsewhere")?;
    check_same(kustomization.path(), &values, "elsewhere").await?;
    for (component, option, value) in options_of_one_component() {
        let kustomization = Kustomization::of(
            &["self-signed", NETWORK, component, option, RESTRICT],
            NAMESPACE,
        )?;
        let mut values = only(&[component]);
        json_patch::merge(&mut values[section(component)], &value);
        check_same(kustomization.path(), &values, NAMESPACE).await?;
    }
    Ok(())
}

/// Without webhooks, only /metrics needs the certificate. The kustomize component self-signed also
/// contains objects for webhooks, which the chart does not render.
#[tokio::test]
async fn without_webhooks_the_chart_has_a_certificate_for_metrics() -> Result<()> {
    let components = [
        "self-signed",
        NETWORK,
        "namespace-gc",
        "metrics-authorization",
    ];
    let mut values = only(&["namespace-gc"]);
    values["metricsAuthorization"] = json!({"enabled": true});
    let kustomization = Kustomization::of(&components, NAMESPACE)?;
    let kustomize = rendered_by_kustomize(kustomization.path()).await?;
    let helm = rendered_by_helm(&values, NAMESPACE).await?;
    for (key, object) in &helm {
        ensure!(kustomize.get(key) == Some(object), "{key}: {object}");
    }
    let role = format!("rbac.authorization.k8s.io/v1 Role {NAMESPACE}/volume-warden-tls");
    ensure!(helm.contains_key(&role), "{:?}", helm.keys());
    Ok(())
}

/// The chart renders the objects of `manifests/monitoring` if they are enabled.
#[tokio::test]
async fn the_monitoring_objects_are_the_same() -> Result<()> {
    let directory = repository().join("manifests/monitoring");
    let kustomize = objects(&rendered(&directory).await?)?;
    let enabled = json!({"enabled": true});
    let values =
        json!({"serviceMonitor": enabled, "prometheusRule": enabled, "dashboards": enabled});
    let mut helm = rendered_by_helm(&values, NAMESPACE).await?;
    helm.retain(|key, _| kustomize.contains_key(key));
    let all = differences("", &json!(kustomize), &json!(helm));
    ensure!(all.is_empty(), "{}", all.join("\n"));
    assert_eq!(kustomize.len(), 3);
    Ok(())
}
