//! Translates the decisions about a volume into JSON patch operations.

use super::{Mode, Options};
use crate::objects::{
    ControllerId, Volume,
    managed_by::{LEGACY_LABEL, RELEASER_LABEL},
    patch::{add, remove, remove_at},
    volume::BOUND_BY_CONTROLLER,
};
use json_patch::PatchOperation;
use serde_json::json;

const CLAIM_REF: [&str; 2] = ["spec", "claimRef"];

/// The operations that label the volume as managed. The volume must not have the label yet.
pub fn association(volume: &Volume, id: &ControllerId) -> Vec<PatchOperation> {
    vec![if volume.labelled {
        add(&["labels", RELEASER_LABEL], json!(id.as_str()))
    } else {
        add(&["labels"], json!({RELEASER_LABEL: id.as_str()}))
    }]
}

/// The operations that release the volume from its claim. The volume must have a `claimRef`.
pub fn release(volume: &Volume, options: &Options) -> Vec<PatchOperation> {
    let mut operations = freed(volume, options.release_mode);
    if !options.disable_automatic_association {
        operations.extend(unlabelled(volume, options));
    }
    if volume.bound_by_controller {
        operations.push(remove(&["annotations", BOUND_BY_CONTROLLER]));
    }
    operations
}

fn freed(volume: &Volume, mode: Mode) -> Vec<PatchOperation> {
    let [spec, claim_ref] = CLAIM_REF;
    let versioned = volume
        .claim_ref
        .as_ref()
        .is_some_and(|claim| claim.versioned);
    match mode {
        Mode::Full => vec![remove_at(&[spec, claim_ref])],
        Mode::Soft => {
            let uid = remove_at(&[spec, claim_ref, "uid"]);
            let version = versioned.then(|| remove_at(&[spec, claim_ref, "resourceVersion"]));
            [uid].into_iter().chain(version).collect()
        }
    }
}

fn unlabelled(volume: &Volume, options: &Options) -> Vec<PatchOperation> {
    let labels = volume.managed_by.as_deref();
    let has_label = labels.is_some_and(|labels| labels.releaser.is_some());
    let has_legacy = labels.is_some_and(|labels| labels.legacy.is_some());
    let label = has_label.then(|| remove(&["labels", RELEASER_LABEL]));
    let legacy = (has_legacy && options.legacy_label).then(|| remove(&["labels", LEGACY_LABEL]));
    label.into_iter().chain(legacy).collect()
}
