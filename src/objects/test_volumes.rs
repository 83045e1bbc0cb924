//! A volume of a deleted claim, for unit tests.

use super::{Tracked as _, WholeVolume, saved_volume::WholeVolumeWire, trash::TRASH};
use serde_json::{Value, json};

/// The volume `pv` of the deleted claim `ns/data`, with the uid `v`, with `changes` merged over it.
pub(crate) fn whole(changes: Value) -> WholeVolume {
    let record = json!({"policy": "Delete", "windowSeconds": 3600,
        "claim": {"namespace": "ns", "name": "data", "uid": "1"}});
    let mut volume = json!({
        "metadata": {"name": "pv", "uid": "v", "annotations": {TRASH: record.to_string()}},
        "spec": {"persistentVolumeReclaimPolicy": "Retain", "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "ns", "name": "data", "uid": "1"},
            "csi": {"driver": "d", "volumeHandle": "h"}},
    });
    json_patch::merge(&mut volume, &changes);
    let wire: WholeVolumeWire = serde_json::from_value(volume).expect("a volume");
    WholeVolume::track(wire).expect("a volume")
}
