//! PersistentVolumeClaims, as the reports of the storage read them.

use super::metadata;
use k8s_openapi::{
    api::core::v1::PersistentVolumeClaim,
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time},
};
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The fields of a claim that are parsed.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = PersistentVolumeClaim)]
pub struct ListedClaim {
    /// The object's standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
    /// The `spec` of the claim.
    #[serde(default)]
    pub spec: Spec,
    /// The `status` of the claim.
    #[serde(default)]
    pub status: Status,
}

/// The fields of a claim's `spec` that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    /// The volume that the claim requests or is bound to.
    pub volume_name: Option<String>,
    /// The StorageClass of the claim.
    pub storage_class_name: Option<String>,
    /// What the claim requests.
    pub resources: Option<Resources>,
}

/// The fields of a claim's `spec.resources` that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// The requested amount of each resource, of which claims have `storage`.
    pub requests: Option<BTreeMap<String, Quantity>>,
}

/// The fields of a claim's `status` that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The phase of the claim: Pending, Bound or Lost.
    pub phase: Option<String>,
    /// The capacity of the claim's volume, as a map whose only key is `storage`.
    pub capacity: Option<BTreeMap<String, Quantity>>,
    /// All conditions of the claim.
    pub conditions: Option<Vec<Condition>>,
}

/// The fields of a claim's condition that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status of the condition: True, False or Unknown.
    pub status: String,
    /// When the status last changed; none if that cannot be read.
    #[serde(deserialize_with = "metadata::readable_time")]
    pub last_transition_time: Option<Time>,
}

impl ListedClaim {
    /// Returns the requested amount of each resource.
    pub fn requests(&self) -> Option<&BTreeMap<String, Quantity>> {
        self.spec.resources.as_ref()?.requests.as_ref()
    }
}
