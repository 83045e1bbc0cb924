//! S11: no write is sent again after it has taken effect.

use super::{Found, ledger::Ledger};
use crate::{
    json::{list, text},
    plan::Plan,
    random::digest,
    replica::is_replica,
};
use bytes::Bytes;
use http::{Method, Request};
use serde_json::Value;
use std::collections::BTreeMap;

/// The writes that took effect.
#[derive(Default)]
pub struct Writes {
    /// When each write was sent, by its identity.
    sent: BTreeMap<u64, u64>,
}

/// A write of a replica, which may take effect.
pub struct Write {
    /// Identifies the replica, the object and the content.
    identity: u64,
    uid: String,
    sent: u64,
    /// Whether the write tests the resourceVersion of the object.
    versioned: bool,
}

impl Writes {
    /// Returns a violation if the same write took effect before. A repeated write that does not
    /// test the resourceVersion is allowed if the object had another change after the decision for
    /// the first write: it is not known which of the two changes the watch has delivered.
    pub fn send(&self, ledger: &Ledger, write: &Write) -> Found {
        let first = *self.sent.get(&write.identity)?;
        let decided = first.saturating_sub(ledger.plan.late() + ledger.plan.longest_wait());
        let changed = !write.versioned && ledger.changes_since(&write.uid, decided) > 1;
        let why = || {
            format!(
                "a write to {} that took effect was sent again after {} ms",
                write.uid,
                write.sent - first
            )
        };
        (!changed).then(|| ("S11", why()))
    }

    /// Records that the write took effect.
    pub fn took_effect(&mut self, write: &Write) {
        self.sent.insert(write.identity, write.sent);
    }
}

/// Returns the write, if it deletes a claim, or adds or removes a finalizer of a claim or a volume,
/// in a history without faults. Other writes may be sent twice: two workers of pvc-retention decide
/// which owners a claim has, and a review and a reconciler about a volume that is reserved, each
/// before the write of the other.
pub fn write_of(plan: &Plan, client: &str, now: u64, request: &Request<Bytes>) -> Option<Write> {
    let (path, query) = (request.uri().path(), request.uri().query());
    let judged = plan.is_calm()
        && is_replica(client)
        && path.contains("/persistentvolume")
        && [Method::PATCH, Method::DELETE].contains(request.method())
        // A purge is sent as a dry run before it is written.
        && !query.is_some_and(|query| query.contains("dryRun"));
    if !judged {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body()).ok()?;
    let is_of_finalizers = |operation: &Value| {
        operation["op"] != "test" && text(operation, "/path").starts_with("/metadata/finalizers")
    };
    let deletes = request.method() == Method::DELETE;
    if !deletes && !list(&body, "").iter().any(is_of_finalizers) {
        return None;
    }
    let tested = |field: &str| {
        let path = format!("/metadata/{field}");
        let mut tests = list(&body, "").iter();
        let test = tests.find(|each| each["op"] == "test" && each["path"] == *path);
        let precondition = || body["preconditions"][field].as_str().unwrap_or_default();
        test.map_or_else(precondition, |test| text(test, "/value"))
    };
    Some(Write {
        identity: digest((client, request.method().as_str(), path, &request.body()[..])),
        uid: tested("uid").to_owned(),
        sent: now,
        versioned: !tested("resourceVersion").is_empty(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{faults::Faults, replica::SERVICE_ACCOUNT};
    use serde_json::json;
    use std::sync::Arc;
    use volume_warden_apiserver_model::Change;

    fn calm() -> Plan {
        Plan {
            faults: Faults::default(),
            disruptions: Vec::new(),
            ..Plan::new(1)
        }
    }

    fn patch(operation: Value) -> Request<Bytes> {
        let uid = json!({"op": "test", "path": "/metadata/uid", "value": "u"});
        let body = json!([uid, operation]).to_string();
        let request = Request::patch("/api/v1/persistentvolumes/v").body(body.into());
        request.expect("a request")
    }

    fn changed(ledger: &mut Ledger, now: u64) {
        let change = Change {
            revision: 0,
            plural: "persistentvolumes",
            namespace: String::new(),
            name: "v".into(),
            before: None,
            after: Some(Arc::new(json!({"metadata": {"uid": "u"}}))),
            user: SERVICE_ACCOUNT.into(),
        };
        ledger.apply(now, &change);
    }

    #[test]
    fn a_write_is_not_repeated_until_its_object_changes_again() {
        let (mut writes, plan) = (Writes::default(), calm());
        let mut ledger = Ledger::new(&plan);
        let add = patch(json!({"op": "add", "path": "/metadata/finalizers", "value": ["f"]}));
        let write = |now| write_of(&plan, "replica-0.0", now, &add).expect("a write");
        assert_eq!(writes.send(&ledger, &write(10_000)), None);
        assert_eq!(
            writes.send(&ledger, &write(10_000)),
            None,
            "the first one failed"
        );
        writes.took_effect(&write(10_000));
        changed(&mut ledger, 10_001);
        assert!(writes.send(&ledger, &write(12_000)).is_some());
        changed(&mut ledger, 12_000);
        assert_eq!(writes.send(&ledger, &write(12_001)), None);
        let versioned = |now| Write {
            versioned: true,
            ..write(now)
        };
        assert!(writes.send(&ledger, &versioned(12_001)).is_some());
    }

    #[test]
    fn only_what_is_not_due_again_is_judged() {
        let label = json!({"op": "add", "path": "/metadata/labels", "value": {}});
        let removal = json!({"op": "remove", "path": "/metadata/finalizers/0"});
        let judged = |client, operation: &Value| {
            write_of(&calm(), client, 0, &patch(operation.clone())).is_some()
        };
        assert!(judged("replica-0.0", &removal));
        assert!(!judged("user", &removal) && !judged("replica-0.0", &label));
        let faulty = Plan {
            disruptions: vec![(0, crate::plan::Disruption::EndWatches)],
            ..calm()
        };
        assert!(write_of(&faulty, "replica-0.0", 0, &patch(removal)).is_none());
    }
}
