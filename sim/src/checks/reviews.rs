//! S10: what the answers to admission reviews may say.

use super::{Found, ledger::Ledger};
use crate::json::{at, is_deleting, name, namespace, text};
use serde_json::Value;
use volume_warden_apiserver_model::WebhookCall;

/// Looks at the answer to a review: it has the uid of the request, and a refusal of a pod rests on a
/// claim that is really being deleted, or was after the review began: never on a cache alone.
pub fn check(ledger: &Ledger, began: u64, call: &WebhookCall<'_>, answer: &Value) -> Found {
    let asked = text(call.review, "/request/uid");
    if text(answer, "/response/uid") != asked {
        return Some(("S10", format!("{} answered another request", call.webhook)));
    }
    let denied = at(answer, "/response/allowed") != Some(&Value::Bool(true));
    if !denied || !call.webhook.ends_with("pvc-protection.volume-warden.dev") {
        return None;
    }
    let message = text(answer, "/response/status/message");
    let meant = |claim: &Value| {
        namespace(claim) == text(call.review, "/request/namespace") && message.contains(name(claim))
    };
    let deleting = ledger
        .all("persistentvolumeclaims")
        .any(|claim| meant(claim) && is_deleting(claim));
    let deleted = ledger.gone_since(began).any(|claim| meant(claim));
    let why = format!(
        "{} refused although no claim is being deleted: {message}",
        call.webhook
    );
    (!deleting && !deleted).then_some(("S10", why))
}
