//! StatefulSets, as creators of claims.
//!
//! Source: `pkg/controller/statefulset/stateful_set_utils.go` of Kubernetes
//! (`getPersistentVolumeClaimName`, `getParentNameAndOrdinal`, `podInOrdinalRange`).

use super::{CompactText, Kind, Tracked, is_possible_name, metadata};
use k8s_openapi::api::apps::v1 as apps;
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use strum::{IntoStaticStr, VariantArray};

/// Finalizer of the garbage collector on an object that is deleted with `--cascade=orphan`, so that
/// its dependents are kept.
const ORPHAN: &str = "orphan";

/// The fields of a StatefulSet that the rules read. StatefulSets without volumeClaimTemplates are
/// not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatefulSet {
    /// Distinguishes the StatefulSet from an earlier or later one of the same name.
    pub uid: CompactText,
    /// Whether `deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether the StatefulSet is being deleted with `--cascade=orphan`, which keeps its
    /// dependents.
    pub orphaning: bool,
    /// The desired number of pods.
    pub replicas: u32,
    /// The ordinal of the first pod.
    pub start: u32,
    /// The `persistentVolumeClaimRetentionPolicy`. None if the API server does not know the field,
    /// or if replicas or ordinals are negative, which no API server accepts; then no rule may act
    /// on it.
    pub retention: Option<Retention>,
    /// The names of the volumeClaimTemplates, in order and each once. The API server accepts
    /// thousands of templates of one name; the StatefulSet controller makes one claim of them.
    pub templates: Box<[Box<str>]>,
    /// The `spec.selector.matchLabels`, which the StatefulSet controller sets on every claim that
    /// it creates.
    pub match_labels: Box<[Label]>,
}

/// A label: its key and its value.
pub type Label = (Box<str>, Box<str>);

/// The `spec.persistentVolumeClaimRetentionPolicy` of a StatefulSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Retention {
    /// What happens to the claims when the StatefulSet is deleted.
    pub when_deleted: Policy,
    /// What happens to a claim when its pod is scaled away.
    pub when_scaled: Policy,
}

/// What happens to a claim when its StatefulSet is deleted, or its pod is scaled away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
pub enum Policy {
    /// The claim is kept. Unknown values of the API count as this one, so that nothing is deleted
    /// because of them.
    #[default]
    Retain,
    /// The claim is deleted.
    Delete,
}

impl Policy {
    /// Returns the policy as the API spells it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl StatefulSet {
    /// Returns whether the ordinal is in the range of the StatefulSet's replicas, so that the
    /// StatefulSet creates a pod for it.
    pub fn has(&self, ordinal: u32) -> bool {
        ordinal
            .checked_sub(self.start)
            .is_some_and(|index| index < self.replicas)
    }

    /// Returns the bytes of the texts that a user may make as long as the object: the names of the
    /// templates, and the labels.
    pub fn text_bytes(&self) -> usize {
        let labels = self.match_labels.iter();
        let labels = labels.map(|(key, value)| key.len() + value.len());
        let templates = self.templates.iter().map(|name| name.len());
        templates.chain(labels).sum()
    }

    /// Returns whether the StatefulSet has a volumeClaimTemplate of this name.
    pub fn makes(&self, template: &str) -> bool {
        let found = self
            .templates
            .binary_search_by(|each| (**each).cmp(template));
        found.is_ok()
    }
}

/// One way to split the name of a claim, `<template>-<set>-<ordinal>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading<'a> {
    /// The name of the volumeClaimTemplate.
    pub template: &'a str,
    /// The name of the StatefulSet.
    pub set: &'a str,
    /// The ordinal of the pod.
    pub ordinal: u32,
}

/// Returns every way to split the name of a claim: `a-b-c-0` belongs to the template `a` of the
/// StatefulSet `b-c`, or to `a-b` of `c`. The StatefulSets that exist decide. A name that no
/// StatefulSet can have is left out.
pub fn readings(claim: &str) -> impl Iterator<Item = Reading<'_>> {
    ordinal(claim)
        .into_iter()
        .flat_map(|(before, ordinal)| {
            before.match_indices('-').map(move |(dash, _)| Reading {
                template: &before[..dash],
                set: &before[dash + 1..],
                ordinal,
            })
        })
        .filter(|reading| !reading.template.is_empty() && is_possible_name(reading.set))
}

/// Splits the name of a pod or claim into the part before its ordinal, and the ordinal.
pub fn ordinal(name: &str) -> Option<(&str, u32)> {
    let (before, digits) = name.rsplit_once('-')?;
    let ordinal: u32 = digits.parse().ok()?;
    // `+1` and `01` parse as numbers, but the StatefulSet controller does not write ordinals that
    // way.
    (ordinal.to_string() == digits).then_some((before, ordinal))
}

/// The fields of a StatefulSet that are parsed.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = apps::StatefulSet)]
pub struct StatefulSetWire {
    /// The object's standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
    /// The `spec`, of which the replicas, ordinals, selector, claim templates and retention policy
    /// are parsed.
    #[serde(default)]
    pub spec: StatefulSetSpec,
}

/// The fields of a StatefulSet's `spec` that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetSpec {
    /// The desired number of pods; 1 if it is not set.
    #[serde(default)]
    pub replicas: Option<i32>,
    /// Where the ordinals begin; at 0 if it is not set.
    #[serde(default)]
    pub ordinals: Option<Ordinals>,
    /// The selector of the StatefulSet's pods.
    #[serde(default)]
    pub selector: Selector,
    /// The claim templates, of which only the name is parsed.
    #[serde(default)]
    pub volume_claim_templates: Vec<Template>,
    /// The retention policy; none if the API server does not know the field.
    #[serde(default)]
    pub persistent_volume_claim_retention_policy: Option<RetentionWire>,
}

/// The fields of `spec.ordinals` that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Ordinals {
    /// The ordinal of the first pod.
    #[serde(default)]
    pub start: i32,
}

/// The fields of `spec.selector` that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// The required value of each label.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
}

/// The fields of a volumeClaimTemplate that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Template {
    /// The metadata of the template.
    #[serde(default)]
    pub metadata: TemplateMetadata,
}

/// The only field that is parsed of the metadata of a template. The API server sets and checks the
/// fields of an object's own metadata, but stores here what the user wrote, such as a time that
/// cannot be represented.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct TemplateMetadata {
    /// The name of the template, with which the names of its claims begin.
    #[serde(default)]
    pub name: Option<String>,
}

/// The `spec.persistentVolumeClaimRetentionPolicy`, as it is parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetentionWire {
    #[serde(default)]
    when_deleted: Option<String>,
    #[serde(default)]
    when_scaled: Option<String>,
}

impl From<RetentionWire> for Retention {
    fn from(wire: RetentionWire) -> Self {
        let policy = |value: Option<String>| match value.as_deref() {
            Some("Delete") => Policy::Delete,
            _ => Policy::Retain,
        };
        Self {
            when_deleted: policy(wire.when_deleted),
            when_scaled: policy(wire.when_scaled),
        }
    }
}

impl From<StatefulSetWire> for StatefulSet {
    fn from(wire: StatefulSetWire) -> Self {
        let (metadata, spec) = (wire.metadata, wire.spec);
        let templates = spec.volume_claim_templates.into_iter();
        let templates: BTreeSet<String> = templates
            .filter_map(|template| template.metadata.name)
            .collect();
        let labels = spec.selector.match_labels.into_iter();
        let finalizers = metadata.finalizers.unwrap_or_default();
        let replicas = u32::try_from(spec.replicas.unwrap_or(1));
        let start = u32::try_from(spec.ordinals.unwrap_or_default().start);
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            deleting: metadata.deletion_timestamp.is_some(),
            orphaning: finalizers.iter().any(|finalizer| finalizer == ORPHAN),
            replicas: replicas.unwrap_or_default(),
            start: start.unwrap_or_default(),
            retention: spec
                .persistent_volume_claim_retention_policy
                .filter(|_| replicas.is_ok() && start.is_ok())
                .map(Into::into),
            templates: templates.into_iter().map(Into::into).collect(),
            match_labels: labels
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        }
    }
}

impl Tracked for StatefulSet {
    type Wire = StatefulSetWire;
    const KIND: Kind = Kind::StatefulSet;

    fn track(wire: StatefulSetWire) -> Option<Self> {
        Some(Self::from(wire)).filter(|set| !set.templates.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(spec: serde_json::Value) -> StatefulSet {
        let wire = json!({"metadata": {"name": "web", "uid": "u", "finalizers": ["orphan"]}, "spec": spec});
        serde_json::from_value::<StatefulSetWire>(wire)
            .expect("a set")
            .into()
    }

    #[test]
    fn a_name_is_read_in_every_way() {
        let read = |name: &'static str| -> Vec<_> {
            readings(name)
                .map(|r| (r.template, r.set, r.ordinal))
                .collect()
        };
        assert_eq!(read("data-web-0"), [("data", "web", 0)]);
        assert_eq!(read("a-b-c-10"), [("a", "b-c", 10), ("a-b", "c", 10)]);
        // No StatefulSet has the name `-b`.
        assert_eq!(read("a--b-0"), [("a-", "b", 0)]);
        for no_claim_of_a_set in [
            "",
            "data",
            "data-0",
            "data-web",
            "data-web-01",
            "data-web-+1",
            "data-web-99999999999",
            "-web-0",
            "data--0",
        ] {
            assert_eq!(read(no_claim_of_a_set), [], "{no_claim_of_a_set}");
        }
    }

    /// The API server accepts thousands of templates of one name.
    #[test]
    fn each_template_counts_once() {
        let template = |name: &str| json!({"metadata": {"name": name}});
        let names = ["logs", "data", "logs", "data", "logs"].map(template);
        let set = set(json!({"volumeClaimTemplates": names}));
        assert_eq!(*set.templates, ["data".into(), "logs".into()]);
        assert!(set.makes("data") && set.makes("logs") && !set.makes("cache"));
    }

    /// STS-55: ordinals, and the range of `spec.ordinals`.
    #[test]
    fn ordinals_begin_where_the_set_says() {
        let plain = set(json!({}));
        assert!(plain.has(0) && !plain.has(1));
        let later = set(json!({"replicas": 3, "ordinals": {"start": 2}}));
        let wanted: Vec<_> = (0..7).filter(|ordinal| later.has(*ordinal)).collect();
        assert_eq!(wanted, [2, 3, 4]);
        assert!(!set(json!({"replicas": 0})).has(0));
    }

    /// STS-56: the retention policy, and values that a future API may add.
    #[test]
    fn the_policy_is_read_as_it_is_given() {
        let policy = |value| set(json!({"persistentVolumeClaimRetentionPolicy": value})).retention;
        assert_eq!(policy(json!(null)), None);
        assert_eq!(policy(json!({})), Some(Retention::default()));
        let read =
            policy(json!({"whenDeleted": "Delete", "whenScaled": "Archive"})).expect("a policy");
        assert_eq!(
            (read.when_deleted, read.when_scaled),
            (Policy::Delete, Policy::Retain)
        );
    }

    /// One object that cannot be parsed would fail the LIST of all.
    #[test]
    fn a_negative_number_leaves_no_policy() {
        let policy = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
        for (replicas, start) in [(-1, 0), (2, -1)] {
            let set = set(json!({"replicas": replicas, "ordinals": {"start": start},
                "persistentVolumeClaimRetentionPolicy": policy}));
            assert_eq!(set.retention, None, "{replicas} {start}");
        }
    }

    #[test]
    fn sets_without_templates_are_not_kept() {
        let wire = |templates| StatefulSetWire {
            spec: StatefulSetSpec {
                volume_claim_templates: templates,
                ..StatefulSetSpec::default()
            },
            ..StatefulSetWire::default()
        };
        assert!(StatefulSet::track(wire(vec![])).is_none());
        assert!(
            StatefulSet::track(wire(vec![Template::default()])).is_none(),
            "a template has a name"
        );
        assert!(
            set(json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}}]})).makes("data")
        );
    }
}
