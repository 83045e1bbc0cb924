//! The condition `Unused` of a claim, which shows whether pods use the claim.
//!
//! Source: `PersistentVolumeClaimUnused` in `staging/src/k8s.io/api/core/v1/types.go` and
//! `setUnusedCondition` in `pkg/controller/volume/pvcprotection/pvc_protection_controller.go` of
//! Kubernetes 1.37.

use super::field_owner::FIELD_MANAGER;
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time},
    jiff::Timestamp,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// The type of the condition.
pub const UNUSED: &str = "Unused";

/// The condition `Unused` of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unused {
    /// Whether the status is True: no pod uses the claim.
    pub holds: bool,
    /// The `lastTransitionTime` in seconds since 1970, or the creation of the claim if that is
    /// later: a restored backup may contain the status of an earlier claim. `u32::MAX` if the time
    /// is unreadable, or too late for this type.
    pub since: u32,
    /// Whether Volume Warden wrote the status: `managedFields` name it, and no other manager, as
    /// the owner.
    pub own: bool,
}

impl Unused {
    /// Finds the condition in a claim's status. `owners` are the field managers that own the
    /// condition's status; see [`metadata::with_unused_owners`](super::metadata). The claim was
    /// `created` at this time, in seconds since 1970.
    pub(super) fn find(
        conditions: &[Condition],
        owners: &[ManagedFieldsEntry],
        created: i64,
    ) -> Option<Self> {
        let mut conditions = conditions.iter();
        let condition = conditions.find(|condition| condition.r#type.as_deref() == Some(UNUSED))?;
        Some(Self {
            holds: condition.status.as_deref() == Some("True"),
            since: condition.last_transition_time.max(clamped(created)),
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
    #[serde(deserialize_with = "seconds")]
    last_transition_time: u32,
}

/// Reads a time in seconds since 1970. A time that is too late to be represented, and text that is
/// no time, gives the maximum, so that no claim is deleted because of it. Neither is an error,
/// because one claim must not fail the LIST of all.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.map_or(0, |text| match text.parse::<Timestamp>() {
        Ok(time) => clamped(time.as_second()),
        Err(_) => u32::MAX,
    }))
}

fn clamped(seconds: i64) -> u32 {
    seconds.max(0).try_into().unwrap_or(u32::MAX)
}

/// Returns the status to apply to a claim: the condition `Unused` alone, True if `holds`, with the
/// transition time `now`.
pub fn status(holds: bool, now: Timestamp) -> Value {
    let (status, reason, message) = if holds {
        (
            "True",
            "NoPodsUsingPVC",
            "No pods are currently referencing this PVC",
        )
    } else {
        (
            "False",
            "PodUsingPVC",
            "A pod is currently referencing this PVC",
        )
    };
    json!({"conditions": [{
        "type": UNUSED,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": Time(now),
    }]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_cannot_be_read_is_the_latest() {
        for (text, expected) in [
            (json!(null), 0),
            (json!("1969-12-31T00:00:00Z"), 0),
            (json!("1970-01-01T00:00:07Z"), 7),
            (json!("2200-01-01T00:00:00Z"), u32::MAX),
            // Kubernetes accepts it.
            (json!("9999-12-31T23:59:59Z"), u32::MAX),
        ] {
            let condition = json!({"type": UNUSED, "status": "True", "lastTransitionTime": text});
            let condition: Condition = serde_json::from_value(condition).expect("readable");
            let found = Unused::find(&[condition], &[], 0).expect("the condition");
            assert_eq!(found.since, expected, "{text}");
        }
    }

    #[test]
    fn a_claim_is_not_unused_since_before_its_creation() {
        let condition =
            json!({"type": UNUSED, "status": "True", "lastTransitionTime": "1970-01-01T00:00:07Z"});
        for (created, expected) in [(6, 7), (8, 8), (-1, 7)] {
            let condition: Condition = serde_json::from_value(condition.clone()).expect("readable");
            let found = Unused::find(&[condition], &[], created).expect("the condition");
            assert_eq!(found.since, expected, "{created}");
        }
    }
}
