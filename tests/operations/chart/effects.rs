//! A change of any single value of the chart changes the rendered objects.

use super::{
    template,
    values::{chart_file, leaves},
};
use crate::{
    fresh,
    support::{define_kind, kustomization::NAMESPACE},
};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Kinds of other products, which the API server serves only with a CustomResourceDefinition.
const CUSTOM_KINDS: [(&str, &str); 4] = [
    ("certificates.cert-manager.io", "Certificate"),
    ("issuers.cert-manager.io", "Issuer"),
    ("prometheusrules.monitoring.coreos.com", "PrometheusRule"),
    ("servicemonitors.monitoring.coreos.com", "ServiceMonitor"),
];

/// Pairs of values: those without which the tested values have no effect, and the tested values,
/// each of which changes the rendered objects.
const CHANGES: &str = r#"
[
    [{}, {
        "pvcProtection": {"enabled": false, "finishedPods": "release", "unusedCondition": "off", "bindingGuard": true},
        "pvProtection": {"enabled": false},
        "pvcRetention": {"enabled": false},
        "pvcProvisioner": {
            "enabled": false, "strictTemplates": true, "templateFields": ["selector"], "allowedStorageClasses": ["fast"],
            "authorizeRequester": "pod-creator", "orphanGrace": "2m",
            "blockOwnerDeletion": true
        },
        "pvReleaser": {
            "enabled": false, "disableAutomaticAssociation": true, "releaseMode": "soft", "releaseScope": "cluster", "legacyLabel": false,
            "associateByStorageClass": true
        },
        "pvcTrash": {"enabled": false, "trashMaxPurges": 10, "trashMaxBytes": "1Ti"},
        "pvcExpiry": {"enabled": true},
        "trashList": {"enabled": true},
        "onlyProtection": true,
        "dryRun": true,
        "webhooks": {
            "port": 10250,
            "exemptNamespaces": ["kube-system", "monitoring"],
            "namespaceSelector": {
                "matchLabels": {"team": "storage"},
                "matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]
            }
        },
        "tls": {"mode": "certManager"},
        "image": {"repository": "example.com/warden", "tag": "next", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "nameOverride": "warden", "fullnameOverride": "warden",
        "replicaCount": 3,
        "resources": {"limits": {"memory": "1Gi"}},
        "podSecurityContext": {"fsGroup": 65532},
        "securityContext": {"privileged": false},
        "hostNetwork": true,
        "podDisruptionBudget": {"enabled": false, "maxUnavailable": 2},
        "priorityClass": {"create": true},
        "topologySpreadConstraints": [],
        "affinity": {"nodeAffinity": {}},
        "tolerations": [{"key": "storage"}],
        "nodeSelector": {"pool": "system"},
        "networkPolicy": {"enabled": false},
        "restrictServiceAccount": {"enabled": false},
        "ownerReferencesPermissionEnforcement": {"enabled": true},
        "metricsAuthorization": {"enabled": true},
        "serviceMonitor": {"enabled": true},
        "prometheusRule": {"enabled": true},
        "dashboards": {"enabled": true},
        "serviceAccount": {"create": false, "name": "mine", "annotations": {"a": "b"}},
        "extraArgs": ["--log-format=json"],
        "extraEnv": [{"name": "RUST_LOG", "value": "debug"}],
        "extraVolumes": [{"name": "ca", "emptyDir": {}}],
        "commonLabels": {"a": "b"}, "podLabels": {"a": "b"}, "podAnnotations": {"a": "b"}
    }],
    [{"extraVolumes": [{"name": "ca", "emptyDir": {}}]}, {
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}]
    }],
    [{"namespaceGc": {"storageBackend": "storageos"}}, {
        "namespaceGc": {
            "enabled": false, "storageBackend": "directory",
            "storageos": {"endpoint": "https://other", "secretName": "other", "caKey": "", "insecureHttp": true},
            "gcScope": "seen", "gcProtect": ["precious-*"], "gcGrace": "2m", "gcMaxDeletions": 1,
            "gcConfirmAfter": "20s", "namespaceDeleteWorkers": 1, "namespaceDeleteGcDelay": "1s",
            "namespaceDeleteGcInterval": "2h", "storageosRefreshInterval": "2m", "storageosRetryInterval": "6s"
        }
    }],
    [{"pvcExpiry": {"enabled": true}}, {
        "pvcExpiry": {"expiryMaxDeletions": 1, "expiryReferences": ["db.io/Database:.spec['a','b']"]}
    }],
    [{"namespaceGc": {"storageBackend": "directory"}}, {
        "namespaceGc": {"directory": {"claimName": "other"}}
    }],
    [{"tls": {"mode": "certManager", "certManager": {"issuerRef": {"name": "ca"}}}}, {
        "tls": {"certManager": {"issuerRef": {"name": "other", "kind": "ClusterIssuer", "group": "example.com"}}}
    }],
    [{"tls": {"mode": "secret"}}, {"tls": {"secret": {"name": "other", "ca": "PEM"}}}],
    [{"tls": {"clientCA": {"configMapName": "ca"}}}, {
        "tls": {"clientCA": {"configMapName": "other", "allowedNames": []}}
    }],
    [{"image": {"tag": "next"}}, {"image": {"digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}],
    [{"priorityClass": {"create": false}}, {"priorityClass": {"name": "other"}}],
    [{"networkPolicy": {"enabled": true}}, {
        "networkPolicy": {
            "apiServerPorts": [8443], "egress": [{"ports": [{"port": 4317}]}],
            "webhooksFrom": [{"podSelector": {}}], "metricsFrom": [{"podSelector": {}}]
        }
    }],
    [{"serviceMonitor": {"enabled": true}}, {"serviceMonitor": {"interval": "30s", "labels": {"a": "b"}}}],
    [{"prometheusRule": {"enabled": true}}, {"prometheusRule": {"labels": {"a": "b"}}}],
    [{"dashboards": {"enabled": true}}, {"dashboards": {"labels": {"a": "b"}}}]
]
"#;

/// The object in which the value at this path is the only one.
fn nested(path: &str, value: Value) -> Value {
    let keys = path.rsplit('/').filter(|key| !key.is_empty());
    keys.fold(value, |value, key| json!({key: value}))
}

/// Every value changes the rendered objects when it is changed alone, and a real API server accepts
/// the objects.
#[tokio::test]
async fn every_value_changes_the_objects() -> Result<()> {
    let schema: Value = serde_json::from_str(&chart_file("values.schema.json")?)?;
    let mut untested: BTreeSet<_> = leaves("", &schema, &Value::Null)
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| path != "/global")
        .collect();
    let mut rendered = BTreeSet::new();
    let changes: Vec<(Value, Value)> = serde_json::from_str(CHANGES)?;
    for (context, values) in &changes {
        let before = template(context, "volume-warden").await?;
        let changed = leaves("", &schema, values).into_iter();
        for (path, value) in changed.filter(|(_, value)| !value.is_null()) {
            let mut all = context.clone();
            json_patch::merge(&mut all, &nested(&path, value));
            let after = template(&all, "volume-warden").await?;
            ensure!(before != after, "{path} has no effect");
            untested.remove(&path);
            let objects: Vec<Value> = serde_saphyr::from_multiple(&after)?;
            rendered.extend(objects.iter().map(Value::to_string));
        }
    }
    ensure!(untested.is_empty(), "not tested: {untested:?}");
    are_accepted(&rendered).await
}

/// Checks with a server-side dry run that the API server accepts the objects.
async fn are_accepted(objects: &BTreeSet<String>) -> Result<()> {
    let cluster = fresh::api_server().await?;
    for (name, kind) in CUSTOM_KINDS {
        define_kind(&cluster, name, kind).await?;
    }
    cluster.kubectl(&["create", "namespace", NAMESPACE]).await?;
    ensure!(objects.len() > 100, "{} objects", objects.len());
    let text = objects.iter().map(|each| format!("---\n{each}\n"));
    let apply = ["apply", "--dry-run=server", "-f", "-"];
    let text = text.collect::<String>();
    let accepted = cluster.kubectl_with_stdin(&apply, &text).await?;
    assert_eq!(accepted.lines().count(), objects.len(), "{accepted}");
    Ok(())
}
