//! The state of the server.

use crate::{Endpoint, LIFETIME, PASSWORD, fault::Faults};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// A received request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The endpoint of the request.
    pub endpoint: Endpoint,
    /// Path and query, as received.
    pub target: String,
    /// The header `Authorization`.
    pub authorization: Option<String>,
}

/// The place of the token in the response to a login or a refresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenIn {
    /// In the header, after `Bearer`, and in the body.
    #[default]
    Both,
    /// In the header and without `Bearer`.
    BareHeader,
    /// In the body only.
    Body,
    /// The response has no token.
    Nowhere,
}

#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) name: String,
    /// The number of the change that created it.
    created: u64,
    /// The number of its last change.
    pub(crate) version: u64,
    /// Volumes are separate objects: a new one does not change the version.
    pub(crate) volumes: usize,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) password: String,
    /// The tokens, and when they expire, as a time since the start.
    sessions: HashMap<String, Duration>,
    started: Instant,
    /// How far a test has advanced the clock.
    pub(crate) advanced: Duration,
    pub(crate) announced_lifetime: Option<u64>,
    pub(crate) token_in: TokenIn,
    pub(crate) granted: Vec<String>,
    pub(crate) namespaces: BTreeMap<String, Namespace>,
    pub(crate) others: Vec<Value>,
    pub(crate) faults: Faults,
    pub(crate) requests: Vec<Request>,
    counter: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            password: PASSWORD.to_owned(),
            sessions: HashMap::new(),
            started: Instant::now(),
            advanced: Duration::ZERO,
            announced_lifetime: None,
            token_in: TokenIn::default(),
            granted: Vec::new(),
            namespaces: BTreeMap::new(),
            others: Vec::new(),
            faults: Faults::default(),
            requests: Vec::new(),
            counter: 0,
        }
    }
}

impl State {
    pub(crate) fn create(&mut self, name: &str) -> String {
        self.remove(name);
        let version = self.next();
        let id = format!("id-{version}");
        let namespace = Namespace {
            name: name.to_owned(),
            created: version,
            version,
            volumes: 0,
        };
        self.namespaces.insert(id.clone(), namespace);
        id
    }

    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let before = self.namespaces.len();
        self.namespaces
            .retain(|_, namespace| namespace.name != name);
        self.namespaces.len() < before
    }

    pub(crate) fn touch(&mut self, name: &str) {
        let version = self.next();
        self.named(name)
            .for_each(|namespace| namespace.version = version);
    }

    pub(crate) fn named(&mut self, name: &str) -> impl Iterator<Item = &mut Namespace> {
        let all = self.namespaces.values_mut();
        all.filter(move |namespace| namespace.name == name)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self
            .namespaces
            .values()
            .map(|each| each.name.clone())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn version(&self, name: &str) -> Option<String> {
        let mut all = self.namespaces.values();
        let namespace = all.find(|namespace| namespace.name == name)?;
        Some(written(namespace.version))
    }

    pub(crate) fn listed(&self) -> Value {
        let namespaces = self.namespaces.iter().map(|(id, namespace)| {
            json!({
                "id": id, "name": namespace.name, "labels": {}, "version": written(namespace.version),
                "createdAt": time(namespace.created), "updatedAt": time(namespace.version),
            })
        });
        namespaces.chain(self.others.iter().cloned()).collect()
    }

    /// Creates a token.
    pub(crate) fn grant(&mut self) -> String {
        let token = format!("ey.token+{:04}/=", self.next());
        self.sessions.insert(token.clone(), self.now() + LIFETIME);
        self.granted.push(token.clone());
        token
    }

    /// Whether the token was granted and is still valid.
    pub(crate) fn knows(&self, authorization: Option<&str>) -> bool {
        let token = authorization.and_then(|header| header.strip_prefix("Bearer "));
        let expires = token.and_then(|token| self.sessions.get(token));
        expires.is_some_and(|expires| self.now() < *expires)
    }

    pub(crate) fn end_sessions(&mut self) {
        self.sessions.clear();
    }

    fn now(&self) -> Duration {
        self.started.elapsed() + self.advanced
    }

    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }
}

/// The version as text. It contains characters that have a meaning in a URL.
pub(crate) fn written(version: u64) -> String {
    format!("v+{version}&/=")
}

/// The time of a change: one second after the previous change, in 2021.
fn time(change: u64) -> String {
    let (hours, minutes, seconds) = (change / 3600, change / 60 % 60, change % 60);
    format!("2021-07-01T{hours:02}:{minutes:02}:{seconds:02}.5Z")
}
