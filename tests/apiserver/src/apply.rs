//! Server-side apply of the conditions in a status, the only use of it in Volume Warden.

use crate::{
    status::{Answer, Failure},
    strategy::array,
};
use serde_json::{Value, json};

/// Applies a status with conditions, and takes the ownership of these conditions from every other
/// field manager, as with `force`.
///
/// Conditions that the manager applied before are removed if the new status lacks them.
pub(crate) fn applied(old: &Value, configuration: &Value, manager: &str) -> Answer<Value> {
    if manager.is_empty() {
        let problem = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
        return Err(Failure::bad_request(problem.to_owned()));
    }
    let mut new = old.clone();
    for field in ["uid", "resourceVersion"] {
        if let Some(value) = configuration["metadata"].get(field) {
            new["metadata"][field] = value.clone();
        }
    }
    let given = array(configuration, "/status/conditions").to_vec();
    let before = owned(old, manager);
    let mut conditions = array(old, "/status/conditions").to_vec();
    conditions.retain(|each| !before.contains(&key(each)));
    for condition in &given {
        conditions.retain(|each| key(each) != key(condition));
        conditions.push(condition.clone());
    }
    if let Some(status) = new["status"].as_object_mut() {
        if conditions.is_empty() {
            drop(status.remove("conditions"))
        } else {
            drop(status.insert("conditions".to_owned(), conditions.into()))
        }
    }
    let given: Vec<String> = given.iter().map(key).collect();
    new["metadata"]["managedFields"] = managers(old, manager, &given);
    Ok(new)
}

/// The key of a condition in `fieldsV1`.
fn key(condition: &Value) -> String {
    format!(r#"k:{{"type":{}}}"#, condition["type"])
}

/// The keys of the conditions that the manager has applied.
fn owned(object: &Value, manager: &str) -> Vec<String> {
    let entries = array(object, "/metadata/managedFields").iter();
    let own = entries.filter(|entry| entry["manager"] == manager);
    let conditions = own.filter_map(|entry| {
        entry
            .pointer("/fieldsV1/f:status/f:conditions")?
            .as_object()
    });
    conditions
        .flat_map(|conditions| conditions.keys().cloned())
        .collect()
}

fn managers(old: &Value, manager: &str, keys: &[String]) -> Value {
    let mut entries = array(old, "/metadata/managedFields").to_vec();
    entries.retain(|entry| entry["manager"] != manager);
    for entry in &mut entries {
        if let Some(Value::Object(conditions)) =
            entry.pointer_mut("/fieldsV1/f:status/f:conditions")
        {
            conditions.retain(|key, _| !keys.contains(key));
        }
    }
    if !keys.is_empty() {
        let fields = json!({".": {}, "f:type": {}, "f:status": {}, "f:reason": {}, "f:message": {},
            "f:lastTransitionTime": {}});
        let conditions: Value = keys
            .iter()
            .map(|key| (key.clone(), fields.clone()))
            .collect();
        entries.push(json!({
            "manager": manager, "operation": "Apply", "apiVersion": old["apiVersion"],
            "subresource": "status", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {"f:conditions": conditions}},
        }));
    }
    entries.into()
}
