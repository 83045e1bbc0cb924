//! The shipped policies `volume-warden-trash` and `volume-warden-trash-claims`. The manifests
//! have them in CEL; this module has them in Rust.

use crate::{
    json::{at, text},
    replica::SERVICE_ACCOUNT,
};
use serde_json::Value;
use std::sync::Arc;
use volume_warden::objects::trash::{TRASH, UNDELETE};
use volume_warden_apiserver_model::{Attempt, Policy};

/// The beginning of the record of a volume whose original reclaim policy is Delete.
const DELETE: &str = r#"{"policy":"Delete","#;
/// The beginning of a record to which the policies do not apply.
const RETAIN: &str = r#"{"policy":"Retain","#;

/// The policies as the API server applies them.
pub fn shipped() -> Policy {
    Arc::new(|attempt| match attempt.plural {
        "persistentvolumes" => of_volumes(attempt),
        "persistentvolumeclaims" if attempt.operation == "CREATE" => of_claims(attempt),
        _ => Ok(()),
    })
}

fn of_volumes(attempt: &Attempt<'_>) -> Result<(), String> {
    let Some((old, record)) = attempt
        .old
        .and_then(|old| Some((old, annotation(old, TRASH)?)))
    else {
        return Ok(());
    };
    let deletes = attempt.operation == "DELETE";
    let own = attempt.user.name == SERVICE_ACCOUNT && !deletes;
    if own || record.starts_with(RETAIN) || !is_kept(old) {
        return Ok(());
    }
    let same = attempt
        .new
        .is_some_and(|new| annotation(new, TRASH) == Some(record));
    match attempt.new {
        _ if deletes => Err("the volume is kept".into()),
        Some(new) if !is_kept(new) => Err("the reclaim policy stays Retain".into()),
        Some(_) if !same && record.starts_with(DELETE) => Err("the record is kept".into()),
        _ => Ok(()),
    }
}

fn of_claims(attempt: &Attempt<'_>) -> Result<(), String> {
    let restores = attempt
        .new
        .filter(|claim| annotation(claim, UNDELETE).is_some());
    match restores.map(|claim| text(claim, "/spec/volumeName")) {
        Some("") => Err("the claim would get an empty volume".into()),
        _ => Ok(()),
    }
}

fn is_kept(volume: &Value) -> bool {
    text(volume, "/spec/persistentVolumeReclaimPolicy") == "Retain"
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    at(object, "/metadata/annotations")?.get(key)?.as_str()
}
