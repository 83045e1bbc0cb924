//! PUT and PATCH.

use crate::{
    admission::Write,
    route::Route,
    server::{ApiServer, User, parse},
    status::{Answer, Failure},
    strategy::{array, tidy, update},
};
use json_patch::PatchErrorKind;
use serde_json::Value;
use std::sync::Arc;

/// How often a PATCH without a resourceVersion is tried again after a conflict.
///
/// Source: `MaxRetryWhenPatchConflicts` in `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go`.
const PATCH_ATTEMPTS: u32 = 5;

impl ApiServer {
    pub(crate) async fn replace(
        &self,
        user: &User,
        route: &Route,
        object: Value,
        warnings: &mut Vec<String>,
    ) -> Answer<Arc<Value>> {
        if object["metadata"]["name"] != route.name.as_str() {
            return Err(Failure::bad_request(format!(
                "the name of the object ({}) does not match the name on the URL ({})",
                object["metadata"]["name"].as_str().unwrap_or_default(),
                route.name,
            )));
        }
        for _ in 0..=PATCH_ATTEMPTS {
            let old = self.read(route)?;
            let mut new = object.clone();
            let version = new["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let uid = new["metadata"]["uid"].as_str().unwrap_or_default();
            if !uid.is_empty() && old["metadata"]["uid"] != uid {
                let why = format!(
                    "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                    old["metadata"]["uid"].as_str().unwrap_or_default(),
                );
                return Err(Failure::conflict(route.resource, &route.name, &why));
            }
            if version.is_empty() {
                new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
            } else if old["metadata"]["resourceVersion"] != version.as_str() {
                return Err(Failure::modified(route.resource, &route.name));
            }
            match self.attempt(user, route, (&old, new), warnings).await? {
                Some(done) => return Ok(done),
                None if !version.is_empty() => {
                    return Err(Failure::modified(route.resource, &route.name));
                }
                None => {}
            }
        }
        Err(Failure::modified(route.resource, &route.name))
    }

    pub(crate) async fn patch(
        &self,
        user: &User,
        route: &Route,
        (kind, patch): (&str, &[u8]),
        warnings: &mut Vec<String>,
    ) -> Answer<Arc<Value>> {
        for _ in 0..PATCH_ATTEMPTS {
            let old = self.read(route)?;
            let new = patched(kind, &old, patch)?;
            if new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]
                && new["metadata"]["resourceVersion"].is_string()
            {
                return Err(Failure::modified(route.resource, &route.name));
            }
            if new["metadata"]["uid"] != old["metadata"]["uid"] {
                let why = format!(
                    "Precondition failed: UID in precondition: {}, UID in object meta: {}",
                    new["metadata"]["uid"].as_str().unwrap_or_default(),
                    old["metadata"]["uid"].as_str().unwrap_or_default(),
                );
                return Err(Failure::conflict(route.resource, &route.name, &why));
            }
            if let Some(done) = self.attempt(user, route, (&old, new), warnings).await? {
                return Ok(done);
            }
        }
        Err(Failure::modified(route.resource, &route.name))
    }

    /// Writes the new state of an object, unless the object was changed since it was read.
    async fn attempt(
        &self,
        user: &User,
        route: &Route,
        (old, mut new): (&Arc<Value>, Value),
        warnings: &mut Vec<String>,
    ) -> Answer<Option<Arc<Value>>> {
        let resource = route.resource;
        new["kind"] = old["kind"].clone();
        new["apiVersion"] = old["apiVersion"].clone();
        update(resource, &route.subresource, old, &mut new)?;
        let write = Write {
            user,
            route,
            operation: "UPDATE",
            old: Some(old),
        };
        let before_admission = new.clone();
        let mut new = self.mutated(&write, new, warnings).await?;
        if new != before_admission {
            update(resource, &route.subresource, old, &mut new)?;
        }
        tidy(&mut new["metadata"]);
        self.validated(&write, Some(&new), warnings).await?;
        let mut store = self.store();
        let present = store.get(resource, &route.namespace, &route.name);
        let Some(present) = present else {
            return Err(Failure::not_found(resource, &route.name));
        };
        if present["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"] {
            return Ok(None);
        }
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        if new == **old || route.parameter("dryRun") == "All" {
            return Ok(Some(Arc::new(new)));
        }
        let removed = is_over(resource.kind, &new);
        Ok(Some(store.commit(
            resource,
            &user.name,
            Some(old.clone()),
            new,
            removed,
        )))
    }
}

/// Whether an object that is being deleted has nothing to wait for any more.
pub(crate) fn is_over(kind: &str, object: &Value) -> bool {
    let metadata = &object["metadata"];
    let waits = kind == "Namespace" && !array(object, "/spec/finalizers").is_empty();
    !metadata["deletionTimestamp"].is_null()
        && array(object, "/metadata/finalizers").is_empty()
        && metadata["deletionGracePeriodSeconds"].as_u64().unwrap_or(0) == 0
        && !waits
}

fn patched(kind: &str, old: &Value, patch: &[u8]) -> Answer<Value> {
    let mut new = old.clone();
    match kind {
        "application/json-patch+json" => {
            let operations: json_patch::Patch = serde_json::from_value(parse(patch)?)
                .map_err(|error| Failure::bad_request(error.to_string()))?;
            json_patch::patch(&mut new, &operations).map_err(|error| {
                let path = error.path.to_string();
                Failure::unprocessable(&match error.kind {
                    PatchErrorKind::TestFailed => format!("testing value {path} failed"),
                    _ => format!("the patch cannot be applied at {path}: {}", error.kind),
                })
            })?;
        }
        "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
            json_patch::merge(&mut new, &parse(patch)?);
        }
        _ => return Err(Failure::unsupported_media_type()),
    }
    Ok(new)
}
