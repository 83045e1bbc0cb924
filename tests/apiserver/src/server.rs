//! The API server and its settings.

use crate::{
    admission::Admission,
    store::{Change, Store, resource},
};
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// The version of Kubernetes that the model behaves like, where versions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Kubernetes 1.34.
    V1_34,
    /// Kubernetes 1.37.
    V1_37,
}

/// The settings of an API server.
pub struct Settings {
    /// The Kubernetes version that the model behaves like.
    pub version: Version,
    /// The seed of uids and generated names.
    pub seed: u64,
    /// The wall clock.
    pub clock: Arc<dyn Fn() -> OffsetDateTime + Send + Sync>,
    /// Maximum number of objects in a page of a LIST that has a limit, so that short lists have
    /// several pages; 0 means the limit of the request.
    pub longest_page: usize,
    /// Whether the admission plugin StorageObjectInUseProtection adds the protection finalizers.
    pub in_tree_protection: bool,
}

/// The user who sends a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name of the user.
    pub name: String,
    /// The groups of the user.
    pub groups: Vec<String>,
}

/// A write as a policy sees it.
pub struct Attempt<'a> {
    /// The user who writes.
    pub user: &'a User,
    /// CREATE, UPDATE or DELETE.
    pub operation: &'a str,
    /// The plural of the kind.
    pub plural: &'a str,
    /// The subresource; empty if there is none.
    pub subresource: &'a str,
    /// The object before the write.
    pub old: Option<&'a Value>,
    /// The object after the write.
    pub new: Option<&'a Value>,
}

/// A ValidatingAdmissionPolicy or a quota: returns why a write is refused. A text that begins with
/// `exceeded quota` is answered with 403, any other with 422.
pub type Policy = Arc<dyn Fn(&Attempt<'_>) -> Result<(), String> + Send + Sync>;

pub(crate) struct Parts {
    pub(crate) settings: Settings,
    pub(crate) store: Mutex<Store>,
    outside: Mutex<Outside>,
}

/// The hooks that the user of the model sets.
#[derive(Clone, Default)]
pub(crate) struct Outside {
    pub(crate) admission: Option<Arc<dyn Admission>>,
    pub(crate) policy: Option<Policy>,
}

/// An API server. Clones share one state.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) parts: Arc<Parts>,
}

impl ApiServer {
    /// Creates an API server without objects.
    pub fn new(settings: Settings) -> Self {
        let store = Mutex::new(Store::new(settings.seed));
        Self {
            parts: Arc::new(Parts {
                settings,
                store,
                outside: Mutex::default(),
            }),
        }
    }

    /// Sets the delivery of reviews to webhooks. Without it, no webhook is called.
    pub fn set_admission(&self, admission: Arc<dyn Admission>) {
        self.plug().admission = Some(admission);
    }

    /// Sets the policy that may refuse writes. Without it, all are allowed.
    pub fn set_policy(&self, policy: Policy) {
        self.plug().policy = Some(policy);
    }

    /// Calls `observer` at each write, in order, before the write is answered. The observer must
    /// not call the API server.
    pub fn observe(&self, observer: Box<dyn Fn(&Change) + Send + Sync>) {
        self.store().observers.push(observer);
    }

    /// Returns the present object of this name. The namespace of a cluster-scoped object is empty.
    pub fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.store()
            .get(resource(plural)?, namespace, name)
            .cloned()
    }

    /// Returns the present objects of a kind in the order of their names.
    pub fn list(&self, plural: &str, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let store = self.store();
        let objects = resource(plural).and_then(|resource| store.kind(resource));
        let within = |name: &str| namespace.is_none_or(|namespace| namespace == name);
        let objects = objects
            .into_iter()
            .flatten()
            .filter(|(name, _)| within(&name.0));
        objects.map(|(_, object)| object.clone()).collect()
    }

    /// Copies the objects and the history of `from`, as if this server had made the same writes.
    pub fn copy(&self, from: &Self) {
        let mut from = from.store();
        self.store().copy(&mut from);
    }

    /// Returns the revision of the last write.
    pub fn revision(&self) -> u64 {
        self.store().revision
    }

    /// Discards the history. From now on, watches and pages that begin before it are answered with
    /// 410.
    pub fn compact(&self) {
        let mut store = self.store();
        store.compacted = store.revision;
        store.history.clear();
        store.snapshots.clear();
    }

    /// Ends all watches, as a restart of the API server does.
    pub fn end_watches(&self) {
        self.store().watchers.clear();
    }

    pub(crate) fn now(&self) -> String {
        let now = (self.parts.settings.clock)().replace_nanosecond(0);
        let text = now.ok().and_then(|now| now.format(&Rfc3339).ok());
        text.unwrap_or_default()
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.parts
            .store
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn outside(&self) -> Outside {
        self.plug().clone()
    }

    fn plug(&self) -> MutexGuard<'_, Outside> {
        self.parts
            .outside
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
