//! Removes from answers what differs between any two API servers, so that they can be compared.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Replaces each value that an API server chooses by a number: the order in which it was first
/// seen.
#[derive(Default)]
pub struct Names {
    uids: BTreeMap<String, String>,
    versions: BTreeMap<String, String>,
    generated: BTreeMap<String, String>,
}

impl Names {
    /// Returns the answer in comparable form.
    pub fn comparable(&mut self, answer: &Value) -> Value {
        let mut answer = reduced(answer);
        self.learn(&answer);
        self.rename(&mut answer);
        answer
    }

    fn learn(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            Value::Object(fields) => {
                if let Some(name) = fields.get("generateName").and(fields.get("name")) {
                    add(&mut self.generated, name, "name");
                }
                if let Some(uid) = fields.get("uid") {
                    add(&mut self.uids, uid, "uid");
                }
                if let Some(version) = fields.get("resourceVersion") {
                    add(&mut self.versions, version, "version");
                }
                fields.values().for_each(|field| self.learn(field));
            }
            _ => {}
        }
    }

    fn rename(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.rename(item)),
            Value::Object(fields) => {
                for (field, value) in fields {
                    match &**field {
                        "resourceVersion" => self.replace(value, &self.versions),
                        "message" => self.replace_words(value),
                        _ => self.rename(value),
                    }
                }
            }
            Value::String(_) => {
                self.replace(value, &self.uids);
                self.replace(value, &self.generated);
            }
            _ => {}
        }
    }

    fn replace(&self, value: &mut Value, names: &BTreeMap<String, String>) {
        if let Some(name) = value.as_str().and_then(|text| names.get(text)) {
            *value = name.clone().into();
        }
    }

    fn replace_words(&self, value: &mut Value) {
        let Some(text) = value.as_str() else { return };
        let is_end = |character: char| !character.is_ascii_alphanumeric() && character != '-';
        let words = text.split_inclusive(is_end).map(|word| {
            let (stem, end) = word.split_at(word.trim_end_matches(is_end).len());
            let all = [&self.uids, &self.versions, &self.generated];
            let name = all.iter().find_map(|names| names.get(stem));
            // A resourceVersion that no answer has shown.
            let unseen = stem.len() > 2 && stem.bytes().all(|byte| byte.is_ascii_digit());
            match name {
                Some(name) => format!("{name}{end}"),
                None if unseen => format!("<number>{end}"),
                None => word.to_owned(),
            }
        });
        *value = words.collect::<String>().into();
    }
}

fn add(names: &mut BTreeMap<String, String>, value: &Value, kind: &str) {
    let Some(text) = value.as_str().filter(|text| !text.is_empty()) else {
        return;
    };
    let name = format!("<{kind} {}>", names.len());
    names.entry(text.to_owned()).or_insert(name);
}

/// Removes what the model does not have, and what depends on the clock.
fn reduced(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(reduced).collect(),
        Value::Object(fields) if is_pod(fields) => reduced_fields(&pod(fields)),
        Value::Object(fields) => reduced_fields(fields),
        other => other.clone(),
    }
}

fn reduced_fields(fields: &Map<String, Value>) -> Value {
    let is_list = fields.get("items").is_some();
    let kept = fields
        .iter()
        .filter(|(field, _)| !LEFT_OUT.contains(&&***field));
    let reduced = kept.map(|(field, value)| {
        let value = match &**field {
            // The clocks of two servers differ.
            "creationTimestamp" | "deletionTimestamp" | "lastPhaseTransitionTime"
                if value.is_string() =>
            {
                "<time>".into()
            }
            // The revision of the whole store, which other requests increase.
            "metadata" if is_list => {
                let mut metadata = value.clone();
                for field in ["resourceVersion", "continue"] {
                    if metadata.get(field).is_some() {
                        metadata[field] = "<of the list>".into();
                    }
                }
                metadata
            }
            // Some kinds validate the metadata twice.
            "causes" => {
                let mut causes: Vec<Value> = reduced(value).as_array().cloned().unwrap_or_default();
                causes.dedup();
                causes.into()
            }
            // The later lines describe a difference of internal objects.
            "message" => first_line(value),
            _ => reduced(value),
        };
        (field.clone(), value)
    });
    Value::Object(reduced.collect())
}

fn first_line(message: &Value) -> Value {
    let text = message.as_str().unwrap_or_default();
    text.lines().next().unwrap_or_default().into()
}

/// The model keeps no record of who wrote which field.
const LEFT_OUT: [&str; 1] = ["managedFields"];

fn is_pod(fields: &Map<String, Value>) -> bool {
    fields.get("kind") == Some(&json!("Pod"))
        || fields
            .get("spec")
            .is_some_and(|spec| spec.get("containers").is_some())
}

/// A real pod has many defaults, and a volume for the token of its service account. The model has
/// only the fields that a rule of Volume Warden reads.
fn pod(fields: &Map<String, Value>) -> Map<String, Value> {
    let part = |pointer: &str| {
        let pod = Value::Object(fields.clone());
        pod.pointer(pointer).cloned().unwrap_or_default()
    };
    let mut pod = fields.clone();
    pod.insert("spec".into(), json!({"nodeName": part("/spec/nodeName")}));
    pod.insert("status".into(), json!({"phase": part("/status/phase")}));
    pod
}
