//! StatefulSets, as makers of claims.
//!
//! Source: `pkg/controller/statefulset/stateful_set_utils.go` of Kubernetes (`getPersistentVolumeClaimName`, `getParentNameAndOrdinal`,
//! `podInOrdinalRange`).

use super::{Kind, Tracked, metadata};
use k8s_openapi::api::apps::v1 as apps;
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;
use std::collections::BTreeMap;
use strum::{IntoStaticStr, VariantArray};

/// The garbage collector's, on an object whose dependents are to stay (`--cascade=orphan`).
const ORPHAN: &str = "orphan";

/// What the rules read of a set. Sets without claim templates are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatefulSet {
    /// Distinguishes the set from an earlier or later one of the same name.
    pub uid: Box<str>,
    /// `deletionTimestamp` is set.
    pub deleting: bool,
    /// It is being deleted in a way that leaves its dependents.
    pub orphaning: bool,
    /// How many pods it is to have.
    pub replicas: u32,
    /// The first pod's ordinal.
    pub start: u32,
    /// The retention policy of the claims. None where the API server does not know the field: then nothing may act on it.
    pub retention: Option<Retention>,
    /// Names of the claim templates.
    pub templates: Box<[Box<str>]>,
    /// `spec.selector.matchLabels`, which the StatefulSet controller puts on every claim it makes.
    pub match_labels: Box<[Label]>,
}

/// Key and value.
pub type Label = (Box<str>, Box<str>);

/// `spec.persistentVolumeClaimRetentionPolicy`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Retention {
    /// When the set is deleted.
    pub when_deleted: Policy,
    /// When a claim's pod is scaled away.
    pub when_scaled: Policy,
}

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
pub enum Policy {
    /// It stays. Also what a value means that is not known: nothing is deleted for it.
    #[default]
    Retain,
    /// It goes.
    Delete,
}

impl Policy {
    /// As in the API.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl StatefulSet {
    /// Whether a pod of this ordinal is wanted.
    pub fn has(&self, ordinal: u32) -> bool {
        ordinal
            .checked_sub(self.start)
            .is_some_and(|index| index < self.replicas)
    }

    /// Whether it makes claims from a template of this name.
    pub fn makes(&self, template: &str) -> bool {
        self.templates.iter().any(|each| &**each == template)
    }
}

/// One way to read the name of a claim, `<template>-<set>-<ordinal>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading<'a> {
    /// Name of the claim template.
    pub template: &'a str,
    /// Name of the set.
    pub set: &'a str,
    /// Ordinal of the pod.
    pub ordinal: u32,
}

/// Every way to read the name of a claim: `a-b-c-0` is of the template `a` of `b-c`, or of `a-b` of `c`. The sets that exist
/// decide.
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
        .filter(|reading| !reading.template.is_empty() && !reading.set.is_empty())
}

/// What is before the ordinal of a pod's or claim's name, and the ordinal.
pub fn ordinal(name: &str) -> Option<(&str, u32)> {
    let (before, digits) = name.rsplit_once('-')?;
    let ordinal: u32 = digits.parse().ok()?;
    // `+1` and `01` are numbers, but no set writes them so.
    (ordinal.to_string() == digits).then_some((before, ordinal))
}

/// The part of a set that is read from the wire.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = apps::StatefulSet)]
pub struct StatefulSetWire {
    /// Standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: StatefulSetSpec,
}

/// The part of a set's `spec` that is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetSpec {
    /// 1 where it is not given.
    #[serde(default)]
    pub replicas: Option<u32>,
    /// Where the ordinals begin.
    #[serde(default)]
    pub ordinals: Option<Ordinals>,
    /// Which pods are the set's.
    #[serde(default)]
    pub selector: Selector,
    /// What the claims are made from.
    #[serde(default)]
    pub volume_claim_templates: Vec<Template>,
    /// What becomes of the claims.
    #[serde(default)]
    pub persistent_volume_claim_retention_policy: Option<RetentionWire>,
}

/// `spec.ordinals`
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Ordinals {
    /// The first one.
    #[serde(default)]
    pub start: u32,
}

/// The part of `spec.selector` that is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// Labels with their one value.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
}

/// The part of a claim template that is read.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Template {
    /// Its name counts.
    #[serde(default, deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
}

/// `spec.persistentVolumeClaimRetentionPolicy`
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
        let labels = spec.selector.match_labels.into_iter();
        let finalizers = metadata.finalizers.unwrap_or_default();
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            deleting: metadata.deletion_timestamp.is_some(),
            orphaning: finalizers.iter().any(|finalizer| finalizer == ORPHAN),
            replicas: spec.replicas.unwrap_or(1),
            start: spec.ordinals.unwrap_or_default().start,
            retention: spec
                .persistent_volume_claim_retention_policy
                .map(Into::into),
            templates: templates
                .filter_map(|template| template.metadata.name)
                .map(Into::into)
                .collect(),
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

    /// STS-55 and the range of `spec.ordinals`.
    #[test]
    fn ordinals_begin_where_the_set_says() {
        let plain = set(json!({}));
        assert!(plain.has(0) && !plain.has(1));
        let later = set(json!({"replicas": 3, "ordinals": {"start": 2}}));
        let wanted: Vec<_> = (0..7).filter(|ordinal| later.has(*ordinal)).collect();
        assert_eq!(wanted, [2, 3, 4]);
        assert!(!set(json!({"replicas": 0})).has(0));
    }

    /// STS-56, and values from the future.
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
