//! DELETE requests.
//!
//! Source: `staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go` (`BeforeDelete`) and
//! `…/registry/generic/registry/store.go` (`Delete`).

use crate::{
    resources::Resource,
    review::Write,
    route::Route,
    server::{ApiServer, User},
    status::{Answer, Failure},
    store::Store,
    strategy::array,
    update::is_over,
};
use serde_json::{Value, json};
use std::sync::Arc;

impl ApiServer {
    pub(crate) async fn delete(
        &self,
        user: &User,
        route: &Route,
        options: &Value,
        warnings: &mut Vec<String>,
    ) -> Answer<Arc<Value>> {
        loop {
            let old = self.read(route)?;
            preconditions(route, &old, options)?;
            let write = Write {
                user,
                route,
                operation: "DELETE",
                old: Some(&old),
            };
            self.validated(&write, None, warnings).await?;
            let now = self.now();
            let mut store = self.store();
            let present = store
                .get(route.resource, &route.namespace, &route.name)
                .cloned();
            let present = present.ok_or_else(|| Failure::not_found(route.resource, &route.name))?;
            // The validated object was deleted, and another one of its name exists.
            if present["metadata"]["uid"] != old["metadata"]["uid"] {
                continue;
            }
            preconditions(route, &present, options)?;
            let dry = route.parameter("dryRun") == "All" || options["dryRun"] == json!(["All"]);
            return Ok(delete(
                &mut store,
                route.resource,
                &user.name,
                (present, options, &now),
                dry,
            ));
        }
    }
}

fn preconditions(route: &Route, object: &Value, options: &Value) -> Answer<()> {
    for (field, name, what) in [
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ] {
        let Some(wanted) = options["preconditions"][field].as_str() else {
            continue;
        };
        let found = object["metadata"][field].as_str().unwrap_or_default();
        if wanted != found {
            let why = format!(
                "the {name} in the precondition ({wanted}) does not match the {name} in record ({found}). The object might have been {what}"
            );
            return Err(Failure::precondition(route.resource, &route.name, &why));
        }
    }
    Ok(())
}

fn delete(
    store: &mut Store,
    resource: &'static Resource,
    user: &str,
    (old, options, now): (Arc<Value>, &Value, &str),
    dry: bool,
) -> Arc<Value> {
    let mut new = (*old).clone();
    let metadata = &mut new["metadata"];
    let deleting = !metadata["deletionTimestamp"].is_null();
    let before = metadata["deletionGracePeriodSeconds"].as_u64();
    let pending = before.filter(|before| deleting && *before > 0);
    let grace = match pending {
        Some(left) => requested(options).filter(|grace| *grace < left),
        None => Some(grace(resource, &old, options)),
    };
    // A grace period that has begun ends earlier only if the request says so.
    let Some(grace) = grace else {
        return old;
    };
    let shorter = before.is_none_or(|before| grace < before);
    if !deleting {
        metadata["deletionTimestamp"] = now.into();
    }
    if (!deleting || shorter) && resource.kind != "Namespace" {
        metadata["deletionGracePeriodSeconds"] = grace.into();
        if !deleting
            && resource.has_generation()
            && let Some(generation) = metadata["generation"].as_u64()
        {
            metadata["generation"] = (generation + 1).into();
        }
    }
    propagate(&mut new, options);
    if resource.kind == "Namespace" {
        new["status"]["phase"] = "Terminating".into();
    }
    let removed = is_over(resource.kind, &new);
    if !removed && (dry || new == *old) {
        return Arc::new(new);
    }
    if !removed {
        return store.commit(resource, user, Some(old), new, false);
    }
    // A pod gets its grace period, even if that is zero, before it is removed. For an object of
    // another kind that is removed at once, the last state is the one before the deletion.
    let graceful = resource.kind == "Pod";
    let mut last = if deleting || graceful {
        Arc::new(new)
    } else {
        old.clone()
    };
    if !dry {
        let mut before = old;
        if graceful && *last != *before {
            last = store.commit(resource, user, Some(before), (*last).clone(), false);
            before = last.clone();
        }
        last = store.commit(resource, user, Some(before), (*last).clone(), true);
    }
    let removed = last;
    let returned = matches!(
        resource.kind,
        "Pod"
            | "PersistentVolumeClaim"
            | "PersistentVolume"
            | "StorageClass"
            | "VolumeAttachment"
            | "CSINode"
    );
    if returned {
        removed
    } else {
        Arc::new(json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": details(resource, &removed),
        }))
    }
}

fn details(resource: &Resource, object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut details =
        json!({"name": metadata["name"], "kind": resource.plural, "uid": metadata["uid"]});
    if !resource.group.is_empty() {
        details["group"] = resource.group.into();
    }
    details
}

/// Adds or removes the finalizers of foreground deletion and of orphaning.
fn propagate(object: &mut Value, options: &Value) {
    let wanted = match (
        options["propagationPolicy"].as_str(),
        options["orphanDependents"].as_bool(),
    ) {
        (Some("Foreground"), _) => Some("foregroundDeletion"),
        (Some("Orphan"), _) | (None, Some(true)) => Some("orphan"),
        (Some(_), _) | (None, Some(false)) => None,
        (None, None) => return,
    };
    let finalizers = array(object, "/metadata/finalizers").iter();
    let others = finalizers.filter(|each| *each != "foregroundDeletion" && *each != "orphan");
    let all: Vec<Value> = others.cloned().chain(wanted.map(Value::from)).collect();
    if all.is_empty() {
        drop(
            object["metadata"]
                .as_object_mut()
                .map(|fields| fields.remove("finalizers")),
        )
    } else {
        object["metadata"]["finalizers"] = all.into()
    }
}

/// The grace period. Only a pod that runs on a node has one.
fn grace(resource: &Resource, object: &Value, options: &Value) -> u64 {
    if resource.kind != "Pod" {
        return 0;
    }
    let finished = matches!(
        object["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    if object["spec"]["nodeName"]
        .as_str()
        .is_none_or(str::is_empty)
        || finished
    {
        return 0;
    }
    let own = object["spec"]["terminationGracePeriodSeconds"]
        .as_u64()
        .unwrap_or(30);
    requested(options).unwrap_or(own)
}

/// The grace period that the request names. A negative one counts as one second.
fn requested(options: &Value) -> Option<u64> {
    let seconds = options["gracePeriodSeconds"].as_i64()?;
    Some(u64::try_from(seconds).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::resource;

    /// The phase of a pod decides only before its first deletion.
    #[test]
    fn a_grace_period_that_has_begun_ends_earlier_only_on_request() {
        let pod = Arc::new(json!({
            "metadata": {
                "name": "a", "namespace": "ns",
                "deletionTimestamp": "2026-01-01T00:00:05Z", "deletionGracePeriodSeconds": 5,
            },
            "spec": {"nodeName": "node"},
            "status": {"phase": "Succeeded"},
        }));
        let left = |options: Value| {
            let (mut store, now) = (Store::new(1), "2026-01-01T00:00:01Z");
            let pods = resource("pods").expect("pods are known");
            let of_pod = (pod.clone(), &options, now);
            let deleted = delete(&mut store, pods, "alice", of_pod, true);
            deleted["metadata"]["deletionGracePeriodSeconds"].clone()
        };
        assert_eq!(left(json!({})), 5);
        for (requested, expected) in [(9, 5), (5, 5), (3, 3), (-1, 1), (0, 0)] {
            assert_eq!(left(json!({"gracePeriodSeconds": requested})), expected);
        }
    }
}
