//! Compares what a volume offers with what a claim requires, for a volume that is reserved for the
//! claim before the claim is bound, and for `why`.
//!
//! Source: `FindMatchingVolume` in `k8s.io/component-helpers/storage/volume` of Kubernetes. A
//! reservation overrides class and selector there, so they are compared here.

use super::keys::{SELECTED_NODE, STORAGE_CLASS, STORAGE_PROVISIONER, STORAGE_PROVISIONER_BETA};
use super::{Kind, Tracked, metadata, quantity};
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::LabelSelectorRequirement},
};
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Annotations which show that a provisioner or the scheduler has begun to find a volume for a
/// claim.
const TAKEN: [&str; 3] = [STORAGE_PROVISIONER, STORAGE_PROVISIONER_BETA, SELECTED_NODE];
const DEFAULT_MODE: &str = "Filesystem";
/// Maximum number of access modes, selector requirements and their values of a claim that are
/// compared with volumes. No volume fits a claim with more: it may have more than 100,000, and is
/// compared with each parked volume while its creation waits.
const MAX_REQUIREMENTS: usize = 256;

/// What a volume offers, except its StorageClass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeProperties {
    /// The capacity of the volume in bytes.
    pub capacity: f64,
    /// The access modes that the volume supports.
    pub access_modes: Vec<String>,
    /// The volume mode: Filesystem or Block; none means Filesystem.
    pub mode: Option<String>,
    /// The VolumeAttributesClass of the volume.
    pub attributes_class: Option<String>,
    /// The labels of the volume, which the selector of a claim may require.
    pub labels: BTreeMap<String, String>,
}

/// What a claim requires of its volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimRequirements {
    /// The uid of the claim; empty before the claim is stored.
    pub uid: Box<str>,
    /// The name of the claim; empty if the API server has yet to generate it.
    pub name: Box<str>,
    /// Whether the claim is not being deleted, and neither a provisioner nor the scheduler has
    /// begun to find a volume for it.
    pub open: bool,
    /// Whether the claim has more than [`MAX_REQUIREMENTS`].
    excessive: bool,
    class: String,
    spec: PersistentVolumeClaimSpec,
}

/// The fields of a claim that say what it requires of its volume, and its metadata.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = PersistentVolumeClaim)]
pub struct ClaimRequirementsWire {
    /// The object's standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
    /// The complete `spec`, whose requirements are compared with a volume.
    #[serde(default)]
    pub spec: PersistentVolumeClaimSpec,
}

impl VolumeProperties {
    /// Returns whether the volume `name` of the StorageClass `class`, which offers this, fits the
    /// claim. No volume fits a claim with a data source, and only the named one fits a claim with
    /// `volumeName`.
    pub fn fits(&self, name: &str, class: &str, requirements: &ClaimRequirements) -> bool {
        let spec = &requirements.spec;
        let (wanted, own) = (&spec.volume_attributes_class_name, &self.attributes_class);
        let named = spec.volume_name.as_deref().unwrap_or_default();
        requirements.class == class
            && !requirements.excessive
            && requested(spec).is_some_and(|size| quantity::of(&size.0) <= self.capacity)
            && missing_mode(&self.access_modes, spec).is_none()
            && volume_mode(spec.volume_mode.as_ref()) == volume_mode(self.mode.as_ref())
            && attributes_class(wanted.as_ref()) == attributes_class(own.as_ref())
            && unselected(spec, &self.labels).is_none()
            && spec.data_source.is_none()
            && spec.data_source_ref.is_none()
            && (named.is_empty() || named == name)
    }
}

impl ClaimRequirements {
    /// The name of the claim's StorageClass; empty if it has none.
    pub fn class(&self) -> &str {
        &self.class
    }

    /// The complete `spec` of the claim.
    pub fn spec(&self) -> &PersistentVolumeClaimSpec {
        &self.spec
    }

    /// The volume that the claim names or is bound to; empty if it names none.
    pub fn volume_name(&self) -> &str {
        self.spec.volume_name.as_deref().unwrap_or_default()
    }
}

/// Returns the number of access modes, selector requirements and their values of the claim.
fn requirements(claim: &PersistentVolumeClaimSpec) -> usize {
    let modes = claim.access_modes.iter().flatten().count();
    let selector = claim.selector.iter();
    let labels = selector.clone().flat_map(|each| &each.match_labels);
    let expressions = selector.flat_map(|each| &each.match_expressions).flatten();
    let expressions = expressions.map(|each| 1 + each.values.iter().flatten().count());
    modes + labels.flatten().count() + expressions.sum::<usize>()
}

/// Returns the storage that the claim requests.
pub fn requested(claim: &PersistentVolumeClaimSpec) -> Option<&Quantity> {
    claim.resources.as_ref()?.requests.as_ref()?.get("storage")
}

/// Returns the first access mode of the claim that a volume with these modes does not offer.
pub fn missing_mode<'a>(
    offered: &[String],
    claim: &'a PersistentVolumeClaimSpec,
) -> Option<&'a String> {
    let mut modes = claim.access_modes.iter().flatten();
    modes.find(|mode| !offered.contains(mode))
}

/// Returns the volume mode of a claim or volume; without one, it is Filesystem.
pub fn volume_mode(mode: Option<&String>) -> &str {
    mode.map_or(DEFAULT_MODE, String::as_str)
}

/// Returns the VolumeAttributesClass of a claim or volume. No class equals the empty class.
pub fn attributes_class(class: Option<&String>) -> &str {
    class.map(String::as_str).unwrap_or_default()
}

/// A requirement of the selector of a claim that the labels of a volume do not meet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unselected<'a> {
    /// An expression.
    Expression(&'a LabelSelectorRequirement),
    /// A label, by its key and value.
    Label(&'a str, &'a str),
}

/// Returns the first requirement of the claim's selector that these labels of a volume do not meet.
pub fn unselected<'a>(
    claim: &'a PersistentVolumeClaimSpec,
    labels: &BTreeMap<String, String>,
) -> Option<Unselected<'a>> {
    let selector = claim.selector.as_ref()?;
    let mut expressions = selector.match_expressions.iter().flatten();
    if let Some(expression) = expressions.find(|each| !holds(each, labels)) {
        return Some(Unselected::Expression(expression));
    }
    let mut equal = selector.match_labels.iter().flatten();
    let (key, value) = equal.find(|(key, value)| labels.get(*key) != Some(*value))?;
    Some(Unselected::Label(key, value))
}

fn holds(expression: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let label = labels.get(&expression.key);
    let values = expression.values.as_deref().unwrap_or_default();
    let among = label.is_some_and(|label| values.contains(label));
    match expression.operator.as_str() {
        "In" => among,
        "NotIn" => !among,
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        _ => false,
    }
}

/// Returns the StorageClass of a claim or volume as Kubernetes reads it. Empty without
/// [`named_class`].
pub fn class_of(annotations: &BTreeMap<String, String>, field: Option<&String>) -> String {
    named_class(annotations, field).cloned().unwrap_or_default()
}

/// Returns the StorageClass that a claim or volume names: the annotation takes precedence over the
/// field `storageClassName`. None without both: such a claim gets the default StorageClass. An
/// empty name requests no StorageClass.
pub fn named_class<'a>(
    annotations: &'a BTreeMap<String, String>,
    field: Option<&'a String>,
) -> Option<&'a String> {
    annotations.get(STORAGE_CLASS).or(field)
}

impl From<ClaimRequirementsWire> for ClaimRequirements {
    fn from(wire: ClaimRequirementsWire) -> Self {
        let (metadata, spec) = (wire.metadata, wire.spec);
        let annotations = metadata.annotations.unwrap_or_default();
        let taken = TAKEN.iter().any(|key| annotations.contains_key(*key));
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            name: metadata.name.unwrap_or_default().into(),
            open: !taken && metadata.deletion_timestamp.is_none(),
            excessive: requirements(&spec) > MAX_REQUIREMENTS,
            class: class_of(&annotations, spec.storage_class_name.as_ref()),
            spec,
        }
    }
}

impl Tracked for ClaimRequirements {
    type Wire = ClaimRequirementsWire;
    const KIND: Kind = Kind::PersistentVolumeClaim;

    fn track(wire: ClaimRequirementsWire) -> Option<Self> {
        Some(wire.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn requirements(changes: Value) -> ClaimRequirements {
        let mut claim = json!({"metadata": {"name": "data", "uid": "1"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "volumeAttributesClassName": "gold",
            "resources": {"requests": {"storage": "1Gi"}}}});
        json_patch::merge(&mut claim, &changes);
        let wire: ClaimRequirementsWire = serde_json::from_value(claim).expect("a claim");
        wire.into()
    }

    /// Its creation waits while it is compared with each parked volume.
    #[test]
    fn a_claim_with_thousands_of_requirements_fits_no_volume() {
        let absent =
            |number: usize| json!({"key": format!("k{number}"), "operator": "DoesNotExist"});
        let many = |number| json!({"spec": {"selector": {"matchExpressions": (0..number).map(absent).collect::<Vec<_>>()}}});
        assert!(fits(many(MAX_REQUIREMENTS - 1)));
        assert!(!fits(many(MAX_REQUIREMENTS)));
        let values: Vec<_> = (0..MAX_REQUIREMENTS).map(|each| each.to_string()).collect();
        let one = json!([{"key": "absent", "operator": "NotIn", "values": values}]);
        assert!(!fits(
            json!({"spec": {"selector": {"matchExpressions": one}}})
        ));
        let modes = vec!["ReadWriteOnce"; MAX_REQUIREMENTS + 1];
        assert!(!fits(json!({"spec": {"accessModes": modes}})));
    }

    fn fits(changes: Value) -> bool {
        let text = |text: &str| text.to_owned();
        let properties = VolumeProperties {
            capacity: quantity::of("2Gi"),
            access_modes: ["ReadWriteOnce", "ReadOnlyMany"].map(text).to_vec(),
            attributes_class: Some(text("gold")),
            labels: BTreeMap::from([(text("zone"), text("a"))]),
            ..VolumeProperties::default()
        };
        properties.fits("pv", "fast", &requirements(changes))
    }

    fn expression(operator: &str, values: Value) -> Value {
        let one = json!({"key": "zone", "operator": operator, "values": values});
        json!({"spec": {"selector": {"matchExpressions": [one]}}})
    }

    #[test]
    fn every_requirement_counts() {
        for (row, changes, fit) in [
            ("as it is", json!({}), true),
            (
                "all of it",
                json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
                true,
            ),
            (
                "too large",
                json!({"spec": {"resources": {"requests": {"storage": "2049Mi"}}}}),
                false,
            ),
            ("no request", json!({"spec": {"resources": null}}), false),
            (
                "class",
                json!({"spec": {"storageClassName": "slow"}}),
                false,
            ),
            (
                "no class",
                json!({"spec": {"storageClassName": null}}),
                false,
            ),
            (
                "older class",
                json!({"metadata": {"annotations": {STORAGE_CLASS: "slow"}}}),
                false,
            ),
            (
                "mode",
                json!({"spec": {"accessModes": ["ReadWriteOnce", "ReadWriteMany"]}}),
                false,
            ),
            ("block", json!({"spec": {"volumeMode": "Block"}}), false),
            ("file", json!({"spec": {"volumeMode": "Filesystem"}}), true),
            (
                "attributes",
                json!({"spec": {"volumeAttributesClassName": null}}),
                false,
            ),
            (
                "label",
                json!({"spec": {"selector": {"matchLabels": {"zone": "a"}}}}),
                true,
            ),
            (
                "no label",
                json!({"spec": {"selector": {"matchLabels": {"zone": "b"}}}}),
                false,
            ),
            ("In", expression("In", json!(["a", "b"])), true),
            ("not In", expression("In", json!(["b"])), false),
            ("NotIn", expression("NotIn", json!(["b"])), true),
            ("not NotIn", expression("NotIn", json!(["a"])), false),
            ("Exists", expression("Exists", json!(null)), true),
            (
                "DoesNotExist",
                expression("DoesNotExist", json!(null)),
                false,
            ),
            ("unknown", expression("Gt", json!(["a"])), false),
            (
                "source",
                json!({"spec": {"dataSource": {"kind": "K", "name": "n"}}}),
                false,
            ),
            (
                "reference",
                json!({"spec": {"dataSourceRef": {"kind": "K", "name": "n"}}}),
                false,
            ),
            ("named", json!({"spec": {"volumeName": "pv"}}), true),
            (
                "another named",
                json!({"spec": {"volumeName": "other"}}),
                false,
            ),
        ] {
            assert_eq!(fits(changes), fit, "{row}");
        }
    }

    #[test]
    fn a_claim_that_is_being_served_is_not_open() {
        assert!(requirements(json!({})).open);
        for key in TAKEN {
            assert!(!requirements(json!({"metadata": {"annotations": {key: "x"}}})).open);
        }
        let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert!(!requirements(deleting).open);
    }
}
