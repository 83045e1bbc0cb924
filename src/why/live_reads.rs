//! The objects that were read for an answer of `why`, or for all answers of `why --stuck`, and the
//! reads that are still requested.

mod api_call;
mod listed;
mod lookup;
mod lookups;

use api_call::{ApiCall, CallResult, Fetch};
use futures::future::join_all;
use k8s_openapi::jiff::Timestamp;
use kube::{Client, Resource};
pub use lookup::Lookup;
use serde::de::DeserializeOwned;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

/// Maximum number of API calls for one answer. Objects that would need more calls stay unread,
/// which the answer reports.
const MAX_CALLS: usize = 12;

/// Maximum number of API calls of `why --stuck`, for the answers about all objects together: the
/// LISTs of the kinds in [`LISTED`], and some calls for other kinds.
const MAX_CALLS_FOR_ALL: usize = 24;

/// The kinds of which `why --stuck` reads no single objects by GET: if any answer depends on the
/// kind, it lists all objects of the namespace or cluster. Of ConfigMaps and Secrets it reads only
/// the metadata.
const LISTED: [&str; 9] = [
    "pods",
    "persistentvolumeclaims",
    "persistentvolumes",
    "statefulsets",
    "nodes",
    "events",
    "resourcequotas",
    "configmaps",
    "secrets",
];

/// A Kubernetes kind that [`LiveReads`] can read.
pub trait Readable:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + Sync + 'static
{
}

impl<K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + Sync + 'static> Readable
    for K
{
}

/// Selects objects of a namespace for a LIST.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    /// A label selector; empty selects all objects.
    pub labels: &'a str,
    /// A field selector; empty selects all objects.
    pub fields: &'a str,
}

/// What was read so far, and the reads that are requested.
pub struct LiveReads {
    /// The time of the answer, to which all ages are relative.
    pub now: Timestamp,
    client: Client,
    scope: Scope,
    read: BTreeMap<ApiCall, CallResult>,
    requested: RefCell<BTreeMap<ApiCall, Fetch>>,
    /// Objects that were read and could not be parsed, as sentences.
    unparsed: RefCell<BTreeSet<String>>,
    calls: usize,
}

/// Whether objects are read one by one or all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// An object with a known name by its own GET, because the answer needs few.
    Single,
    /// Of the kinds in [`LISTED`], all objects of a namespace at once.
    Namespace,
    /// Of the kinds in [`LISTED`] and of namespaces, all objects of the cluster at once.
    Cluster,
}

impl LiveReads {
    /// The reads for the answer about one object. Nothing is read yet.
    pub fn new(client: Client, now: Timestamp) -> Self {
        Self::reading(client, now, Scope::Single)
    }

    /// The reads for answers about all objects of one namespace, or of the cluster. Nothing is read
    /// yet.
    pub fn for_all(client: Client, now: Timestamp, in_one_namespace: bool) -> Self {
        let scope = if in_one_namespace {
            Scope::Namespace
        } else {
            Scope::Cluster
        };
        Self::reading(client, now, scope)
    }

    fn reading(client: Client, now: Timestamp, scope: Scope) -> Self {
        Self {
            now,
            client,
            scope,
            read: BTreeMap::new(),
            requested: RefCell::default(),
            unparsed: RefCell::default(),
            calls: 0,
        }
    }

    /// The number of API calls so far.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// The objects that could not be read, each with its error, as sentences.
    pub fn unread(&self) -> Vec<String> {
        let failed = self.read.iter().filter_map(|(call, reading)| {
            let error = reading.as_ref().err()?;
            Some(format!("{} could not be read: {error}", call.description()))
        });
        let unparsed = self.unparsed.borrow();
        let all = failed.chain(unparsed.iter().cloned());
        all.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Reads the requested objects. Those beyond the maximum number of API calls are recorded as
    /// unread. Returns whether any were requested: the explanation then has to run again.
    pub async fn read_requested(&mut self) -> bool {
        let mut requested = std::mem::take(self.requested.get_mut());
        let any = !requested.is_empty();
        let most = match self.scope {
            Scope::Single => MAX_CALLS,
            Scope::Namespace | Scope::Cluster => MAX_CALLS_FOR_ALL,
        };
        let room = most.saturating_sub(self.calls);
        let beyond = requested.keys().nth(room).cloned();
        if let Some(first) = beyond {
            let refused = requested.split_off(&first).into_keys();
            let error = format!("one answer makes at most {most} API calls");
            let refused = refused.map(|call| (call, Err(error.clone())));
            self.read.extend(refused);
        }
        let reads = requested.into_iter().map(|(call, fetch)| {
            let client = self.client.clone();
            async move { (call.clone(), fetch(client, call).await) }
        });
        let read = join_all(reads).await;
        self.calls += read.len();
        self.read.extend(read);
        any
    }
}
