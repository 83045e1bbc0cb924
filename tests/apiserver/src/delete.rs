//! DELETE.
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
            // The validation of the deletion was about another object.
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
    let grace = grace(resource, &old, options);
    let metadata = &mut new["metadata"];
    let deleting = !metadata["deletionTimestamp"].is_null();
    let shorter = metadata["deletionGracePeriodSeconds"]
        .as_u64()
        .is_none_or(|before| grace < before);
    let pending = metadata["deletionGracePeriodSeconds"].as_u64() > Some(0);
    if deleting && pending && !shorter {
        return old;
    }
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
    // A pod gets its grace period, even if that is zero, before it is removed. The last state of
    // another object is the one before the deletion, as nothing had to be waited for.
    let graceful = resource.kind == "Pod";
    let mut last = match deleting || graceful {
        true => Arc::new(new),
        false => old.clone(),
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
    match returned {
        true => removed,
        false => Arc::new(json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": details(resource, &removed),
        })),
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
    match all.is_empty() {
        true => drop(
            object["metadata"]
                .as_object_mut()
                .map(|fields| fields.remove("finalizers")),
        ),
        false => object["metadata"]["finalizers"] = all.into(),
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
    options["gracePeriodSeconds"].as_u64().unwrap_or(own)
}
