//! Checks of a write when it is sent. The network may hold a write for long, so that the state on
//! which it relies is outdated when it arrives. A precondition has to refuse it then.

use super::{Found, judge, ledger::Ledger};
use crate::{
    json::{at, text, uid},
    plan::{Disruption, Plan},
    replica::SERVICE_ACCOUNT,
};
use bytes::Bytes;
use http::{Method, Request};
use serde_json::Value;
use std::sync::Arc;
use volume_warden_apiserver_model::Change;

/// Maximum time, in milliseconds, between the end of a state and a write that relies on it.
#[derive(Clone, Copy)]
pub struct Ages {
    /// For `pvc-provisioner`: the state of the pods that name a claim, and of their owners.
    pub provisioner: u64,
    /// For `pvc-retention`: the state of a StatefulSet and its pods.
    pub retention: u64,
    /// For `pvc-expiry`: the state of the pods that name a claim.
    pub expiry: u64,
    /// For `pv-releaser`: the state of the VolumeAttachments.
    pub releaser: u64,
}

impl Ages {
    /// The limits at the arrival of a write.
    pub fn on_arrival(plan: &Plan) -> Self {
        let late = plan.late_live();
        Self {
            provisioner: late,
            retention: late,
            expiry: late,
            releaser: late,
        }
    }

    /// The limits at the sending of a write: `MAX_AGE` of each component. If the answer to the read
    /// took long, a third of `MAX_AGE` after that answer. Source: `src/cluster/read/evidence.rs`.
    fn when_sent(plan: &Plan) -> Self {
        let delays = plan.disruptions.iter().map(|(_, each)| match each {
            Disruption::Hold { milliseconds, .. } | Disruption::Pause { milliseconds, .. } => {
                *milliseconds
            }
            _ => 0,
        });
        let answer = plan.faults.latency + delays.sum::<u64>();
        let age = |most: u64| most.max(answer + most / 3).min(plan.late_live());
        Self {
            provisioner: age(10_000),
            retention: age(2_000),
            expiry: age(30_000),
            releaser: age(10_000),
        }
    }
}

/// Checks a write of Volume Warden that is sent now with this body, if the object is still in the
/// state for which the write was decided.
pub fn check(ledger: &Ledger, now: u64, request: &Request<Bytes>, body: Value) -> Found {
    let change = change_of(ledger, request, body)?;
    judge(ledger, now, &change, Ages::when_sent(&ledger.plan))
}

/// What the request would change if it arrived at once; none if it would be refused.
fn change_of(ledger: &Ledger, request: &Request<Bytes>, body: Value) -> Option<Change> {
    let (plural, namespace, name) = object_of(request.uri().path())?;
    let before = ledger.get(plural, namespace, name)?;
    let after = match *request.method() {
        Method::DELETE => deleted(before, &body),
        Method::PATCH => patched(before, body),
        _ => None,
    }?;
    Some(Change {
        revision: 0,
        plural,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        before: Some(before.clone()),
        after: Some(Arc::new(after)),
        user: SERVICE_ACCOUNT.to_owned(),
    })
}

/// The plural, the namespace and the name of the claim or volume at this path.
fn object_of(path: &str) -> Option<(&'static str, &str, &str)> {
    let path = path.strip_prefix("/api/v1/")?;
    let mut parts = path.split('/');
    let parts = [(); 5].map(|()| parts.next().unwrap_or_default());
    match parts {
        ["namespaces", namespace, "persistentvolumeclaims", name, ""] => {
            Some(("persistentvolumeclaims", namespace, name))
        }
        ["persistentvolumes", name, "", "", ""] => Some(("persistentvolumes", "", name)),
        _ => None,
    }
}

fn deleted(before: &Value, options: &Value) -> Option<Value> {
    let wanted = |field| text(options, &format!("/preconditions/{field}"));
    let version = text(before, "/metadata/resourceVersion");
    if wanted("uid") != uid(before) || wanted("resourceVersion") != version {
        return None;
    }
    let mut after = before.clone();
    if at(before, "/metadata/deletionTimestamp").is_none() {
        after["metadata"]["deletionTimestamp"] = "now".into();
    }
    Some(after)
}

fn patched(before: &Value, patch: Value) -> Option<Value> {
    let patch: json_patch::Patch = serde_json::from_value(patch).ok()?;
    let mut after = before.clone();
    json_patch::patch(&mut after, &patch).ok()?;
    Some(after)
}
