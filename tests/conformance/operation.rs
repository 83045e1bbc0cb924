//! A request as it is generated. Its references are resolved only when each side has answered the
//! requests before it.

use serde_json::Value;
use std::collections::BTreeMap;

/// A request, with references such as `{uid:pods/pod-1}` in its query and its body.
#[derive(Clone, Debug)]
pub struct Operation {
    pub method: &'static str,
    pub path: String,
    pub query: String,
    pub headers: Vec<(&'static str, &'static str)>,
    pub body: Option<Value>,
}

impl Operation {
    pub fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            query: String::new(),
            headers: Vec::new(),
            body: None,
        }
    }

    pub fn body(mut self, kind: &'static str, body: Value) -> Self {
        self.headers.push(("content-type", kind));
        self.body = Some(body);
        self
    }

    pub fn query(mut self, query: impl Into<String>) -> Self {
        self.query = query.into();
        self
    }

    /// Returns the URI and the body for a side, with references resolved from its `memory`.
    pub fn resolved(&self, memory: &Memory) -> (String, String) {
        let uri = match &*self.query {
            "" => self.path.clone(),
            query => format!("{}?{}", self.path, memory.resolve(query)),
        };
        let body = self.body.as_ref().map(Value::to_string);
        (uri, memory.resolve(&body.unwrap_or_default()))
    }
}

/// The objects that a side has shown, by plural and name.
#[derive(Default)]
pub struct Memory {
    uids: BTreeMap<String, String>,
    versions: BTreeMap<String, Vec<String>>,
    continue_token: String,
}

impl Memory {
    /// Records the objects that an answer shows.
    pub fn learn(&mut self, plural: &str, answer: &Value) {
        if let Some(token) = answer.pointer("/metadata/continue").and_then(Value::as_str) {
            self.continue_token = token.to_owned();
        }
        let text = |field: &str| answer.pointer(field).and_then(Value::as_str);
        let (Some(name), Some(uid)) = (text("/metadata/name"), text("/metadata/uid")) else {
            return;
        };
        let key = format!("{plural}/{name}");
        self.uids.insert(key.clone(), uid.to_owned());
        if let Some(version) = text("/metadata/resourceVersion") {
            self.versions
                .entry(key)
                .or_default()
                .push(version.to_owned());
        }
    }

    fn resolve(&self, text: &str) -> String {
        let mut resolved = text.replace("{continue}", &self.continue_token);
        for (key, uid) in &self.uids {
            resolved = resolved.replace(&format!("{{uid:{key}}}"), uid);
        }
        for (key, versions) in &self.versions {
            let version = |version: Option<&String>| version.cloned().unwrap_or_default();
            resolved = resolved
                .replace(&format!("{{version:{key}}}"), &version(versions.last()))
                .replace(
                    &format!("{{first-version:{key}}}"),
                    &version(versions.first()),
                );
        }
        // References to an object that was never seen.
        let mut parts = resolved.split("{uid:");
        let first = parts.next().unwrap_or_default().to_owned();
        let resolved = parts.fold(first, |text, part| text + "unknown" + after_brace(part));
        let mut parts = resolved.split("{version:");
        let first = parts.next().unwrap_or_default().to_owned();
        let resolved = parts.fold(first, |text, part| text + "1" + after_brace(part));
        let mut parts = resolved.split("{first-version:");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| text + "1" + after_brace(part))
    }
}

fn after_brace(part: &str) -> &str {
    part.split_once('}').map_or("", |(_, after)| after)
}
