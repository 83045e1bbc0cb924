//! S8, S9: the preconditions of every write of Volume Warden, and when and where it may be sent.

use super::{Found, ledger::Ledger, sending};
use crate::{
    json::{at, is_deleting, text},
    replica::{SERVICE_ACCOUNT, SYSTEM_NAMESPACE, is_replica},
};
use bytes::Bytes;
use http::{Method, Request};
use serde_json::Value;
use volume_warden::objects::reuse::RESERVED_AT;
use volume_warden_apiserver_model::Change;

/// How long a leader may write after the beginning of its last renewal, in milliseconds: the renew
/// deadline in `src/cluster/leader/lease.rs`.
const RENEW_DEADLINE: u64 = 10_000;

/// Checks a request that a client sends now.
pub fn check(ledger: &Ledger, client: &str, now: u64, request: &Request<Bytes>) -> Found {
    let path = request.uri().path();
    let protected = path.contains("/persistentvolume");
    if !is_replica(client) || !protected || request.method().is_safe() {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
    let violation = |what: &str| {
        Some((
            "S8",
            format!("{client} sent {} {path} {what}", request.method()),
        ))
    };
    let guarded = match *request.method() {
        Method::DELETE => {
            let given = |what| body["preconditions"][what].is_string();
            given("uid") && given("resourceVersion")
        }
        Method::PATCH => {
            let tests = body.as_array().map_or(&[][..], Vec::as_slice).iter();
            let tested = |path| {
                tests
                    .clone()
                    .any(|each| each["op"] == "test" && each["path"] == path)
            };
            let applied = body["metadata"]["uid"].is_string();
            applied || tested("/metadata/uid") || tested("/metadata/resourceVersion")
        }
        // A creation destroys nothing, and a review that a follower answers may need it.
        Method::POST => return None,
        _ => false,
    };
    if !guarded {
        return violation("without a precondition");
    }
    let leads = ledger
        .renewed(client)
        .is_some_and(|renewed| now <= renewed + RENEW_DEADLINE);
    // A review that a follower answers may reserve a parked volume for the reviewed claim, and may
    // end the reservation of a volume that the claim must not get.
    let reserves = request.method() == Method::PATCH && changes_annotation(&body, RESERVED_AT);
    if leads || reserves {
        sending::check(ledger, now, request, body)
    } else {
        violation("without the Lease")
    }
}

fn changes_annotation(patch: &Value, key: &str) -> bool {
    let path = format!("/metadata/annotations/{}", key.replace('/', "~1"));
    let mut operations = patch.as_array().into_iter().flatten();
    operations.any(|each| each["op"] != "test" && each["path"] == path.as_str())
}

/// Whether the change concerns only the finalizers of the object.
fn is_only_protected(change: &Change) -> bool {
    let paths = ["/spec", "/metadata/annotations", "/metadata/labels"];
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => paths.iter().all(|path| at(before, path) == at(after, path)),
        // The last finalizer was removed.
        (Some(before), None) => is_deleting(before),
        (None, _) => false,
    }
}

/// S9: a dry run writes nothing, and `--namespace` nothing outside of the namespace.
pub fn check_write(ledger: &Ledger, change: &Change) -> Found {
    if change.user != SERVICE_ACCOUNT || change.plural == "leases" {
        return None;
    }
    let start = &ledger.plan.start;
    let violation = |why: &str| {
        let (plural, namespace, name) = (change.plural, &change.namespace, &change.name);
        Some((
            "S9",
            format!("{plural} {namespace}/{name} was written {why}"),
        ))
    };
    if start.dry_run {
        return violation("in a dry run");
    }
    let namespace = start.namespace?;
    let object = change.before.as_deref().or(change.after.as_deref())?;
    let is_own = |of: &str| [namespace, SYSTEM_NAMESPACE, ""].contains(&of);
    // A volume belongs to the namespace of its claim, or waits for a claim in that of Volume
    // Warden, but all volumes are protected. Events about volumes are in `default`.
    let inside = match change.plural {
        "persistentvolumes" => {
            is_own(text(object, "/spec/claimRef/namespace")) || is_only_protected(change)
        }
        "events" if text(object, "/regarding/kind") == "PersistentVolume" => true,
        _ => is_own(&change.namespace),
    };
    if inside {
        None
    } else {
        violation(&format!("with --namespace={namespace}"))
    }
}
