//! S9, S10: which answers to admission reviews are allowed.

use super::{Found, ledger::Ledger, refusals};
use crate::json::{at, text};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use volume_warden_apiserver_model::WebhookCall;

/// Checks the answer to a review that began at the virtual millisecond `began`: it has the uid of
/// the request, and a refusal never relies on a cache alone.
pub fn check(ledger: &Ledger, began: u64, call: &WebhookCall<'_>, answer: &Value) -> Found {
    let requested = text(call.review, "/request/uid");
    if text(answer, "/response/uid") != requested {
        return Some(("S10", format!("{} answered another request", call.webhook)));
    }
    if ledger.plan.start.dry_run && (!is_allowed(answer) || patch(answer).is_some()) {
        let message = format!("{} refused or changed a request in a dry run", call.webhook);
        return Some(("S9", message));
    }
    if is_allowed(answer) {
        return None;
    }
    let why = refusals::wrong(ledger, began, call, answer)?;
    let message = text(answer, "/response/status/message");
    Some((
        "S10",
        format!("{} refused although {why}: {message}", call.webhook),
    ))
}

/// Whether the answer allows the request.
pub fn is_allowed(answer: &Value) -> bool {
    at(answer, "/response/allowed") == Some(&Value::Bool(true))
}

/// The object with the patch of the answer; none if the answer has no patch that can be applied.
pub fn patched(object: &Value, answer: &Value) -> Option<Value> {
    let patch: json_patch::Patch = serde_json::from_slice(&patch(answer)?).ok()?;
    let mut patched = object.clone();
    json_patch::patch(&mut patched, &patch).ok()?;
    Some(patched)
}

/// The patch of the answer as JSON; none if the answer has no patch.
pub fn patch(answer: &Value) -> Option<Vec<u8>> {
    STANDARD
        .decode(at(answer, "/response/patch")?.as_str()?)
        .ok()
}
