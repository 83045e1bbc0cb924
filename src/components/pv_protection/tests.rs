//! Tests of the rule of pv-protection: the rows of the table test in Kubernetes, and the phases
//! missing there.

use super::{
    reasons::{BOUND, FINALIZER_MISSING, NOT_BOUND},
    rule::{Decision, decide},
};
use crate::{
    cluster::{Action, Basis},
    objects::{Volume, finalizers::PV_PROTECTION, volume::VolumeWire},
};
use serde_json::json;

const ADD: Decision = Decision::Act(Action::add_finalizer(PV_PROTECTION), FINALIZER_MISSING);
const REMOVE: Decision = Decision::Act(
    Action::remove_finalizer(PV_PROTECTION, Basis::Object),
    NOT_BOUND,
);

fn volume(deleting: bool, finalizers: &[&str], phase: Option<&str>) -> Volume {
    let deletion = deleting.then_some("2026-01-01T00:00:00Z");
    let volume = json!({
        "metadata": {"name": "volume", "deletionTimestamp": deletion, "finalizers": finalizers},
        "status": {"phase": phase},
    });
    serde_json::from_value::<VolumeWire>(volume)
        .expect("a volume")
        .into()
}

#[test]
fn the_finalizer_is_removed_unless_bound() {
    for (row, volume, expected) in [
        (
            "PV-01 living, no finalizer",
            volume(false, &["other"], Some("Available")),
            ADD,
        ),
        (
            "PV-02 living with it",
            volume(false, &[PV_PROTECTION], Some("Bound")),
            Decision::Leave(None),
        ),
        (
            "PV-04 deleted, Available",
            volume(true, &[PV_PROTECTION], Some("Available")),
            REMOVE,
        ),
        (
            "deleted, Released",
            volume(true, &["other", PV_PROTECTION], Some("Released")),
            REMOVE,
        ),
        (
            "deleted, Failed",
            volume(true, &[PV_PROTECTION], Some("Failed")),
            REMOVE,
        ),
        (
            "deleted, Pending",
            volume(true, &[PV_PROTECTION], Some("Pending")),
            REMOVE,
        ),
        (
            "deleted, no phase",
            volume(true, &[PV_PROTECTION], None),
            REMOVE,
        ),
        (
            "PV-06 deleted, Bound",
            volume(true, &[PV_PROTECTION], Some("Bound")),
            Decision::Leave(Some(BOUND)),
        ),
        (
            "deleted, held by others only",
            volume(true, &["other"], Some("Available")),
            Decision::Leave(None),
        ),
    ] {
        assert_eq!(decide(&volume), expected, "{row}");
    }
}
