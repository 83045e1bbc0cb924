//! The labels and annotations of a claim that Volume Warden records on its volume, so that a claim
//! that restores the data after the deletion gets them back.

use super::keys::{MANAGER, OWN, TRACKED_INSTANCE};
use super::{
    Kind, Tracked,
    claim::ClaimSpec,
    managed_by::{LEGACY_LABEL, PROVISIONER_LABEL, RELEASER_LABEL},
    metadata,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Maximum length of all recorded keys and values together, as JSON; those that would exceed it
/// are left out. In a record they are at most three times as long, because quotes are escaped. So
/// the record stays below the maximum length of a record that is read.
const LIMIT: usize = 4096;
/// Labels that name the installation which manages a claim or its volume. They are not recorded.
const OWN_LABELS: [&str; 3] = [PROVISIONER_LABEL, RELEASER_LABEL, LEGACY_LABEL];
/// Domains of Kubernetes, whose annotations are not recorded: they hold for one volume and one
/// binding, or repeat the whole object, such as
/// `kubectl.kubernetes.io/last-applied-configuration`.
const KUBERNETES: [&str; 2] = ["kubernetes.io", "k8s.io"];

/// Domains of tools whose labels and annotations are not recorded: on a restored claim, they would
/// make a controller act on the claim or its disk. CDI writes an image to the disk; Argo CD, Flux,
/// Helm, Fleet, kapp and `kubectl apply --applyset` delete what has their mark and is not in their
/// source.
const TOOLS: [&str; 8] = [
    "cdi.kubevirt.io",
    "argoproj.io",
    "fluxcd.io",
    "helm.sh",
    "objectset.rio.cattle.io",
    "fleet.cattle.io",
    "k14s.io",
    "applyset.kubernetes.io",
];
/// Labels by which tools such as Argo CD and Helm track the objects that they created. They are
/// not recorded.
const TRACKING: [&str; 2] = [TRACKED_INSTANCE, MANAGER];

/// The labels and annotations of one claim that are recorded on its volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimMetadata {
    /// The uid of the claim; a recreated claim has another one.
    pub uid: Box<str>,
    /// The volume that the claim names; empty if it names none.
    pub volume_name: Box<str>,
    /// The recorded labels, without those that must not be restored.
    pub labels: BTreeMap<String, String>,
    /// The recorded annotations, without those that must not be restored.
    pub annotations: BTreeMap<String, String>,
}

/// The fields of a claim that are parsed.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = PersistentVolumeClaim)]
pub struct ClaimMetadataWire {
    /// The object's standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
    /// Which volume the claim names.
    #[serde(default)]
    pub spec: ClaimSpec,
}

impl Tracked for ClaimMetadata {
    type Wire = ClaimMetadataWire;
    const KIND: Kind = Kind::PersistentVolumeClaim;

    /// Keeps labels before annotations, each in the order of their keys, and leaves out each one
    /// that would exceed 4 KiB in all: the same claim always gives the same record.
    fn track(wire: ClaimMetadataWire) -> Option<Self> {
        let ObjectMeta {
            uid,
            labels,
            annotations,
            ..
        } = wire.metadata;
        let mut room = LIMIT;
        let mut kept = |all: Option<BTreeMap<String, String>>, keeps: fn(&str) -> bool| {
            let all = all.unwrap_or_default().into_iter();
            let mut fits = |key: &str, value: &str| {
                let left = room.checked_sub(length(key) + length(value));
                room = left.unwrap_or(room);
                left.is_some()
            };
            all.filter(|(key, value)| keeps(key) && fits(key, value))
                .collect()
        };
        Some(Self {
            uid: uid.unwrap_or_default().into(),
            volume_name: wire.spec.volume_name.unwrap_or_default().into(),
            labels: kept(labels, is_kept_label),
            annotations: kept(annotations, is_kept_annotation),
        })
    }
}

/// The length of the text as JSON: with quotes, and with some characters escaped.
fn length(text: &str) -> usize {
    serde_json::to_string(text).map_or(usize::MAX / 4, |json| json.len())
}

/// Returns whether the label with this key is recorded and may be restored.
pub fn is_kept_label(key: &str) -> bool {
    let own = key.starts_with(OWN) || OWN_LABELS.contains(&key);
    !own && !TRACKING.contains(&key) && !is_of(key, &TOOLS)
}

/// Returns whether the annotation with this key is recorded and may be restored.
pub fn is_kept_annotation(key: &str) -> bool {
    is_kept_label(key) && !is_of(key, &KUBERNETES)
}

/// Returns whether a claim with this annotation is filled by a tool, which overwrites what the
/// volume has: CDI, of KubeVirt, writes an image to the disk.
pub fn is_filled_by_tool(annotation: &str) -> bool {
    is_of(annotation, &["cdi.kubevirt.io"])
}

/// Returns whether the prefix of the key is one of these domains, or a subdomain of one.
fn is_of(key: &str, domains: &[&str]) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    domains.iter().any(|domain| {
        prefix
            .strip_suffix(domain)
            .is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn texts(labels: Value, annotations: Value) -> ClaimMetadata {
        let wire = json!({"metadata": {
            "name": "data", "uid": "1", "labels": labels, "annotations": annotations,
        }});
        ClaimMetadata::track(serde_json::from_value(wire).expect("a claim")).expect("tracked")
    }

    fn keys(of: &BTreeMap<String, String>) -> Vec<&str> {
        of.keys().map(String::as_str).collect()
    }

    #[test]
    fn commands_and_annotations_of_kubernetes_are_left_out() {
        let labels = json!({
            "app": "a", "app.kubernetes.io/name": "a", "volume-warden.dev/release-scope": "cluster",
            PROVISIONER_LABEL: "x", RELEASER_LABEL: "x", LEGACY_LABEL: "x",
        });
        let annotations = json!({
            "note": "a", "notkubernetes.io/a": "a",
            "pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n",
            "volume.beta.kubernetes.io/storage-class": "fast", "k8s.io/a": "a",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "volume-warden.dev/undelete": "a", "volume-warden.dev/undelete-window": "0",
        });
        let found = texts(labels, annotations);
        assert_eq!(keys(&found.labels), ["app", "app.kubernetes.io/name"]);
        assert_eq!(keys(&found.annotations), ["note", "notkubernetes.io/a"]);
        assert_eq!(&*found.uid, "1");
    }

    /// With these labels and annotations, a controller would overwrite the disk, or delete the
    /// claim because it is not in its source.
    #[test]
    fn the_marks_of_tools_are_left_out() {
        let marks = json!({
            "cdi.kubevirt.io/storage.import.endpoint": "a", "cdi.kubevirt.io": "kept",
            "argocd.argoproj.io/tracking-id": "a", "argocd.argoproj.io/instance": "a",
            "kustomize.toolkit.fluxcd.io/name": "a", "helm.toolkit.fluxcd.io/name": "a",
            "meta.helm.sh/release-name": "a", "helm.sh/chart": "a",
            "app.kubernetes.io/instance": "a", "app.kubernetes.io/managed-by": "Helm",
            "objectset.rio.cattle.io/hash": "a", "kapp.k14s.io/app": "a",
            "applyset.kubernetes.io/part-of": "a", "example.com/cdi.kubevirt.io": "kept",
        });
        let found = texts(marks.clone(), marks);
        let kept = ["cdi.kubevirt.io", "example.com/cdi.kubevirt.io"];
        assert_eq!(
            (keys(&found.labels), keys(&found.annotations)),
            (kept.to_vec(), kept.to_vec())
        );
    }

    /// A text that does not fit does not displace a smaller one. The length of a text is that of
    /// its escaped form.
    #[test]
    fn what_is_kept_is_bounded() {
        let half = "x".repeat(LIMIT / 2);
        let escaped = "\n".repeat(LIMIT / 2);
        let annotations = json!({"a": half, "b": half, "c": "small", "d": escaped});
        let found = texts(json!({"app": "a"}), annotations);
        assert_eq!(keys(&found.labels), ["app"]);
        assert_eq!(keys(&found.annotations), ["a", "c"]);
        let many: serde_json::Map<_, _> = (0..5000)
            .map(|number| (format!("k{number}"), json!("\u{1}")))
            .collect();
        let found = texts(Value::Object(many.clone()), Value::Object(many));
        let length = json!([found.labels, found.annotations]).to_string().len();
        assert!(length < LIMIT * 2 && !found.labels.is_empty(), "{length}");
        let most = texts(json!({}), json!({"a": "\\".repeat(LIMIT / 2 - 4)}));
        let text = json!(json!(most.annotations).to_string()).to_string();
        assert!(!most.annotations.is_empty() && text.len() < LIMIT * 3);
    }
}
