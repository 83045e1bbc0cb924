//! PUT and PATCH requests.

use crate::{
    apply::applied,
    json::parse,
    review::Write,
    route::Route,
    server::{ApiServer, User},
    status::{Answer, Failure},
    strategy::{array, tidy, update},
};
use json_patch::{AddOperation, PatchOperation, ReplaceOperation};
use serde_json::Value;
use std::sync::Arc;

/// How often a PATCH without a resourceVersion is retried after a conflict.
///
/// Source: `MaxRetryWhenPatchConflicts` in
/// `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go`.
const PATCH_ATTEMPTS: u32 = 5;

/// The media type of server-side apply.
const APPLY: &str = "application/apply-patch+yaml";

impl ApiServer {
    pub(crate) async fn replace(
        &self,
        user: &User,
        route: &Route,
        object: Value,
        warnings: &mut Vec<String>,
    ) -> Answer<Arc<Value>> {
        check_name(route, &object)?;
        for _ in 0..=PATCH_ATTEMPTS {
            let old = self.read(route)?;
            let mut new = object.clone();
            new["metadata"]["managedFields"] = old["metadata"]["managedFields"].clone();
            let version = new["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let uid = new["metadata"]["uid"].as_str().unwrap_or_default();
            if !uid.is_empty() && old["metadata"]["uid"] != uid {
                let why = format!(
                    "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                    route.key(),
                    old["metadata"]["uid"].as_str().unwrap_or_default(),
                );
                return Err(Failure::conflict(route.resource, &route.name, &why));
            }
            if version.is_empty() && route.resource.kind == "Lease" {
                return Err(Failure::unconditional(route.resource, &route.name));
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
            let new = match kind {
                APPLY if route.subresource == "status" => {
                    let manager = route.parameter("fieldManager");
                    applied(&old, &parse(patch)?, manager)?
                }
                _ => patched(kind, &old, patch)?,
            };
            check_name(route, &new)?;
            if new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]
                && new["metadata"]["resourceVersion"].is_string()
            {
                return Err(Failure::modified(route.resource, &route.name));
            }
            if new["metadata"]["uid"] != old["metadata"]["uid"] {
                let detail = format!(
                    "Invalid value: {}: field is immutable",
                    new["metadata"]["uid"]
                );
                return Err(Failure::invalid(
                    route.resource,
                    &route.name,
                    "metadata.uid",
                    &detail,
                ));
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
        let (resource, now) = (route.resource, self.now());
        let version = self.parts.settings.version;
        new["kind"] = old["kind"].clone();
        new["apiVersion"] = old["apiVersion"].clone();
        update(version, resource, &route.subresource, old, &mut new, &now)?;
        let write = Write {
            user,
            route,
            operation: "UPDATE",
            old: Some(old),
        };
        let (mut new, patched) = self.mutated(&write, new, warnings).await?;
        if patched {
            update(version, resource, &route.subresource, old, &mut new, &now)?;
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
        let same = new == **old && !store.is_as_created(route);
        if same || route.parameter("dryRun") == "All" {
            return Ok(Some(Arc::new(new)));
        }
        let before = Some(old.clone());
        if is_over(resource.kind, &new) {
            // Watches show the object as it was stored, and the answer has the resourceVersion from
            // before.
            store.commit(resource, &user.name, before, (**old).clone(), true);
            return Ok(Some(Arc::new(new)));
        }
        Ok(Some(store.commit(resource, &user.name, before, new, false)))
    }
}

/// Whether an object that is being deleted can be removed now.
pub(crate) fn is_over(kind: &str, object: &Value) -> bool {
    let metadata = &object["metadata"];
    let waits = kind == "Namespace" && !array(object, "/spec/finalizers").is_empty();
    !metadata["deletionTimestamp"].is_null()
        && array(object, "/metadata/finalizers").is_empty()
        && metadata["deletionGracePeriodSeconds"].as_u64().unwrap_or(0) == 0
        && !waits
}

fn check_name(route: &Route, object: &Value) -> Answer<()> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name == route.name {
        Ok(())
    } else {
        Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            route.name,
        )))
    }
}

fn patched(kind: &str, old: &Value, patch: &[u8]) -> Answer<Value> {
    let mut new = old.clone();
    match kind {
        "application/json-patch+json" => {
            let operations: json_patch::Patch = serde_json::from_value(parse(patch)?)
                .map_err(|error| Failure::bad_request(error.to_string()))?;
            // The JSON patch library of a real API server adds a missing map key on `replace`.
            for operation in operations.0 {
                let operation = match operation {
                    PatchOperation::Replace(ReplaceOperation { path, value }) => {
                        PatchOperation::Add(AddOperation { path, value })
                    }
                    other => other,
                };
                json_patch::patch(&mut new, &[operation]).map_err(|_| Failure::unprocessable())?;
            }
        }
        "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
            json_patch::merge(&mut new, &parse(patch)?);
        }
        _ => return Err(Failure::unsupported_media_type()),
    }
    Ok(new)
}
