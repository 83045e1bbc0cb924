//! The condition `Unused` of a claim, which shows whether pods use the claim.
//!
//! Source: `PersistentVolumeClaimUnused` in `staging/src/k8s.io/api/core/v1/types.go` and
//! `setUnusedCondition` in `pkg/controller/volume/pvcprotection/pvc_protection_controller.go` of
//! Kubernetes 1.37.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time},
    jiff::Timestamp,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The type of the condition.
pub const UNUSED: &str = "Unused";

/// The field manager of the entries that Volume Warden applies.
pub const FIELD_MANAGER: &str = "volume-warden";

/// The condition `Unused` of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unused {
    /// Whether the status is True: no pod uses the claim.
    pub holds: bool,
    /// The `lastTransitionTime` in seconds since 1970; 0 if it is not set, or not between 1970 and
    /// 2106.
    pub since: u32,
    /// Whether Volume Warden wrote the status last.
    pub own: bool,
}

impl Unused {
    /// Finds the condition in a claim's status. `owners` are the field managers that own the
    /// condition's status; see [`metadata::with_unused_owners`](super::metadata).
    pub(super) fn find(conditions: &[Condition], owners: &[ManagedFieldsEntry]) -> Option<Self> {
        let mut conditions = conditions.iter();
        let condition = conditions.find(|condition| condition.r#type.as_deref() == Some(UNUSED))?;
        let since = condition.last_transition_time.as_ref();
        Some(Self {
            holds: condition.status.as_deref() == Some("True"),
            since: since
                .and_then(|time| time.0.as_second().try_into().ok())
                .unwrap_or_default(),
            own: !owners.is_empty()
                && owners
                    .iter()
                    .all(|owner| owner.manager.as_deref() == Some(FIELD_MANAGER)),
        })
    }
}

/// The fields of a claim's condition that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    r#type: Option<String>,
    status: Option<String>,
    last_transition_time: Option<Time>,
}

/// Returns the status to apply to a claim: the condition `Unused` alone, True if `holds`, with the
/// transition time `now`.
pub fn status(holds: bool, now: Timestamp) -> Value {
    let (status, reason, message) = match holds {
        true => (
            "True",
            "NoPodsUsingPVC",
            "No pods are currently referencing this PVC",
        ),
        false => (
            "False",
            "PodUsingPVC",
            "A pod is currently referencing this PVC",
        ),
    };
    json!({"conditions": [{
        "type": UNUSED,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": Time(now),
    }]})
}
