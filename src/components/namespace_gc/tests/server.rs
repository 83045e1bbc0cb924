//! A fake API server: namespaces, one ConfigMap, a Lease and Events.

use crate::cluster::test_server::failure;
use http::{Method, request::Parts};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) namespaces: BTreeSet<String>,
    pub(super) config_map: Option<Value>,
    /// Status codes for the next calls of a kind, such as `LIST namespaces`. The status is 200 if
    /// no code is left or the code is 0.
    pub(super) fails: VecDeque<(&'static str, u16)>,
    pub(super) calls: Vec<String>,
    pub(super) events: Vec<Value>,
}

#[derive(Debug, Default)]
pub(super) struct Server {
    state: Mutex<State>,
}

impl Server {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn fail(&self, call: &'static str, code: u16, times: usize) {
        let mut state = self.state();
        state.fails.extend((0..times).map(|_| (call, code)));
    }

    pub(super) fn called(&self, call: &str) -> usize {
        let state = self.state();
        state.calls.iter().filter(|each| *each == call).count()
    }

    pub(super) fn reasons(&self) -> Vec<String> {
        let state = self.state();
        let reasons = state.events.iter().map(|event| event["reason"].as_str());
        reasons
            .map(|reason| reason.unwrap_or_default().to_owned())
            .collect()
    }

    /// The names in the ConfigMap, separated by spaces.
    pub(super) fn recorded(&self) -> String {
        let state = self.state();
        let map = state.config_map.as_ref();
        let names = map.and_then(|map| map["data"]["names"].as_str());
        names.unwrap_or_default().trim().replace('\n', " ")
    }

    pub(super) fn record(&self, names: &str) {
        let map = json!({"metadata": {"name": super::CONFIG_MAP, "resourceVersion": "7"}, "data": {"names": names}});
        self.state().config_map = Some(map);
    }

    pub(super) fn answer(&self, head: &Parts, sent: Value) -> (u16, Value) {
        let (code, answer) = self.state().answer(&head.method, head.uri.path(), sent);
        match code {
            200 => (code, answer),
            404 => failure(code, "NotFound"),
            409 => failure(code, "Conflict"),
            _ => failure(code, "InternalError"),
        }
    }
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, sent: Value) -> (u16, Value) {
        let parts: Vec<_> = path.trim_start_matches('/').split('/').collect();
        let (resource, name) = match &*parts {
            ["api", "v1", "namespaces"] => ("namespaces", None),
            ["api", "v1", "namespaces", name] => ("namespaces", Some(*name)),
            [.., resource @ ("configmaps" | "events")] => (*resource, None),
            [.., resource @ ("configmaps" | "leases"), name] => (*resource, Some(*name)),
            other => panic!("{other:?}"),
        };
        let verb = if *method == Method::GET && name.is_none() {
            "LIST"
        } else {
            method.as_str()
        };
        let call = format!("{verb} {resource}");
        self.calls.push(call.clone());
        if let Some(place) = self.fails.iter().position(|(fails, _)| *fails == call)
            && let Some((_, code)) = self.fails.remove(place)
            && code != 0
        {
            return (code, Value::Null);
        }
        match (&*call, name) {
            ("LIST namespaces", _) => (200, self.list()),
            ("GET namespaces", Some(name)) if self.namespaces.contains(name) => {
                (200, namespace(name))
            }
            ("GET leases", _) => (
                200,
                json!({"metadata": {"name": "lease", "uid": "lease-uid"}}),
            ),
            ("POST events", _) => {
                self.events.push(sent.clone());
                (200, sent)
            }
            ("GET configmaps", _) => self
                .config_map
                .clone()
                .map_or((404, Value::Null), |map| (200, map)),
            ("POST configmaps", _) if self.config_map.is_none() => (200, self.store(sent, "1")),
            ("PUT configmaps", _) => self.replace(sent),
            ("GET namespaces", _) => (404, Value::Null),
            _ => (409, Value::Null),
        }
    }

    fn list(&self) -> Value {
        let items: Vec<_> = self.namespaces.iter().map(|name| namespace(name)).collect();
        json!({"kind": "NamespaceList", "apiVersion": "v1", "metadata": {}, "items": items})
    }

    fn replace(&mut self, sent: Value) -> (u16, Value) {
        let version = |map: &Value| {
            map["metadata"]["resourceVersion"]
                .as_str()
                .map(str::to_owned)
        };
        let current = self.config_map.as_ref().and_then(version);
        if current.is_none() || version(&sent) != current {
            return (409, Value::Null);
        }
        let next: u64 = current
            .and_then(|version| version.parse().ok())
            .expect("a number");
        (200, self.store(sent, &(next + 1).to_string()))
    }

    fn store(&mut self, mut map: Value, version: &str) -> Value {
        map["metadata"]["resourceVersion"] = version.into();
        self.config_map = Some(map.clone());
        map
    }
}

pub(super) fn namespace(name: &str) -> Value {
    json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name, "uid": format!("uid-{name}")}})
}
