//! What the API server sets and refuses for each kind.

use crate::{
    resources::Resource,
    server::Version,
    status::{Answer, Failure},
};
use serde_json::{Value, json};

/// Sets the defaults of a new object.
pub(crate) fn defaults(resource: &Resource, object: &mut Value, now: &str) {
    if resource.status
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    let phase = |phase: &str| json!({"phase": phase});
    match resource.kind {
        "Pod" => {
            object["status"] = phase("Pending");
            default(object, "/spec/terminationGracePeriodSeconds", 30.into());
        }
        "PersistentVolumeClaim" => {
            object["status"] = phase("Pending");
            default(object, "/spec/volumeMode", "Filesystem".into());
        }
        "PersistentVolume" => {
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
            default(object, "/spec/volumeMode", "Filesystem".into());
            default(
                object,
                "/spec/persistentVolumeReclaimPolicy",
                "Retain".into(),
            );
        }
        "Namespace" => {
            object["status"] = phase("Active");
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            let name = object["metadata"]["name"].clone();
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
        }
        "StatefulSet" => {
            object["status"] = json!({"replicas": 0});
            default(object, "/spec/replicas", 1.into());
            let policy = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
            default(object, "/spec/persistentVolumeClaimRetentionPolicy", policy);
        }
        "VolumeAttachment" => object["status"] = json!({"attached": false}),
        _ => {}
    }
}

fn default(object: &mut Value, pointer: &str, value: Value) {
    let Some((parent, field)) = pointer.rsplit_once('/') else {
        return;
    };
    if let Some(parent) = object
        .pointer_mut(parent)
        .filter(|parent| parent.is_object())
        && parent[field].is_null()
    {
        parent[field] = value;
    }
}

/// Adds the protection finalizer, as the admission plugin StorageObjectInUseProtection does.
pub(crate) fn protect(resource: &Resource, object: &mut Value) {
    let finalizer = match resource.kind {
        "PersistentVolumeClaim" => "kubernetes.io/pvc-protection",
        "PersistentVolume" => "kubernetes.io/pv-protection",
        _ => return,
    };
    let finalizers = &mut object["metadata"]["finalizers"];
    if finalizers.is_null() {
        *finalizers = json!([]);
    }
    if let Some(list) = finalizers
        .as_array_mut()
        .filter(|list| !list.contains(&finalizer.into()))
    {
        list.push(finalizer.into());
    }
}

/// Refuses an object with invalid fields.
pub(crate) fn validate(version: Version, resource: &Resource, object: &Value) -> Answer<()> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let owners = array(object, "/metadata/ownerReferences");
    for (index, owner) in owners.iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().is_none_or(str::is_empty) {
                let (place, problem) = match version {
                    Version::V1_34 => (String::new(), "Invalid value: \"\""),
                    Version::V1_37 => (format!("[{index}]"), "Required value"),
                };
                let field = format!("metadata.ownerReferences{place}.{field}");
                let problem = format!("{problem}: must not be empty");
                return Err(Failure::invalid(resource, name, &field, &problem));
            }
        }
    }
    let controllers = array(object, "/metadata/ownerReferences")
        .iter()
        .filter(|owner| owner["controller"] == true);
    if controllers.count() > 1 {
        let detail = "Invalid value: Only one reference can have Controller set to true";
        return Err(Failure::invalid(
            resource,
            name,
            "metadata.ownerReferences",
            detail,
        ));
    }
    Ok(())
}

/// Completes the new state of an object from the old one, and refuses what must not change.
pub(crate) fn update(
    version: Version,
    resource: &Resource,
    subresource: &str,
    old: &Value,
    new: &mut Value,
    now: &str,
) -> Answer<()> {
    let name = old["metadata"]["name"].as_str().unwrap_or_default();
    match subresource {
        "status" => {
            keep(old, new, "spec");
            if resource.kind == "PersistentVolume"
                && old["status"]["phase"] != new["status"]["phase"]
            {
                new["status"]["lastPhaseTransitionTime"] = now.into();
            }
        }
        "finalize" => {
            let finalizers = new["spec"]["finalizers"].take();
            *new = old.clone();
            new["spec"]["finalizers"] = finalizers;
        }
        _ if resource.status => new["status"] = old["status"].clone(),
        _ => {}
    }
    if new.get("status").is_some_and(Value::is_null)
        && let Some(fields) = new.as_object_mut()
    {
        fields.remove("status");
    }
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "name",
        "namespace",
        "generateName",
    ] {
        keep(&old["metadata"], &mut new["metadata"], field);
    }
    tidy(&mut new["metadata"]);
    finalizers(resource, name, old, new)?;
    immutable(resource, name, old, new)?;
    validate(version, resource, new)?;
    if resource.has_generation() && old["spec"] != new["spec"] {
        let generation = old["metadata"]["generation"].as_u64().unwrap_or(1) + 1;
        new["metadata"]["generation"] = generation.into();
    }
    Ok(())
}

fn keep(old: &Value, new: &mut Value, field: &str) {
    match old.get(field) {
        Some(value) => new[field] = value.clone(),
        None => {
            if let Some(fields) = new.as_object_mut() {
                fields.remove(field);
            }
        }
    }
}

/// Removes empty maps and lists, which the API server does not store.
pub(crate) fn tidy(metadata: &mut Value) {
    let Some(fields) = metadata.as_object_mut() else {
        return;
    };
    fields.retain(|_, value| match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Null => false,
        _ => true,
    });
}

fn finalizers(resource: &Resource, name: &str, old: &Value, new: &Value) -> Answer<()> {
    if old["metadata"]["deletionTimestamp"].is_null() {
        return Ok(());
    }
    let before = array(old, "/metadata/finalizers");
    let added: Vec<_> = array(new, "/metadata/finalizers")
        .iter()
        .filter(|each| !before.contains(each))
        .collect();
    if added.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = added.iter().map(|each| each.to_string()).collect();
    let detail = format!(
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        names.join(", "),
    );
    Err(Failure::invalid(
        resource,
        name,
        "metadata.finalizers",
        &detail,
    ))
}

fn immutable(resource: &Resource, name: &str, old: &Value, new: &Value) -> Answer<()> {
    let forbidden = |field: &str, detail: &str| {
        Err(Failure::invalid(
            resource,
            name,
            field,
            &format!("Forbidden: {detail}"),
        ))
    };
    match resource.kind {
        "PersistentVolumeClaim" => {
            let mut expected = old["spec"].clone();
            let unbound = old["spec"]["volumeName"].is_null();
            if unbound && let Some(volume) = new["spec"].get("volumeName") {
                expected["volumeName"] = volume.clone();
            }
            expected["resources"] = new["spec"]["resources"].clone();
            if expected != new["spec"] {
                return forbidden(
                    "spec",
                    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
                );
            }
        }
        "Pod"
            if old["spec"]["volumes"] != new["spec"]["volumes"]
                || old["spec"]["nodeName"] != new["spec"]["nodeName"] =>
        {
            return forbidden(
                "spec",
                "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
            );
        }
        "PersistentVolume" if old["spec"]["csi"] != new["spec"]["csi"] => {
            return forbidden(
                "spec.persistentvolumesource",
                "spec.persistentvolumesource is immutable after creation",
            );
        }
        _ => {}
    }
    Ok(())
}

/// The list at this path of keys, each after a `/`, or an empty one.
pub(crate) fn array<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    let mut keys = path.split('/').skip(1);
    keys.try_fold(object, |value, key| value.get(key))
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}
