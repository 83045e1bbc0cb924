//! The objects that were read for an answer of `why`, or for all answers of `why --stuck`, and the
//! reads that are still requested.

mod listed;
mod look;
mod question;

use super::read::Pod;
use futures::future::join_all;
use k8s_openapi::jiff::Timestamp;
use kube::{Client, Resource, ResourceExt};
use listed::{Listed, PodOfClaims};
pub use look::Look;
use question::{Fetch, Metadata, Question, Reading};
use serde::de::DeserializeOwned;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Maximum number of API calls for one answer. Objects that would need more calls stay unread,
/// which the answer reports.
const MOST_CALLS: usize = 8;

/// Maximum number of API calls of `why --stuck`, for the answers about all objects together: the
/// LISTs of the kinds in [`LISTED`], and some calls for other kinds.
const MOST_CALLS_FOR_ALL: usize = 24;

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

/// Maximum number of objects that [`World::each`] reads with one GET each. It reads more with one
/// LIST.
const ONE_BY_ONE: usize = 2;

/// A Kubernetes kind that [`World`] can read.
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
pub struct World {
    /// The time of the answer, to which all ages are relative.
    pub now: Timestamp,
    client: Client,
    scope: Scope,
    read: BTreeMap<Question, Reading>,
    requested: RefCell<BTreeMap<Question, Fetch>>,
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

impl World {
    /// A world for the answer about one object, in which nothing is read yet.
    pub fn new(client: Client, now: Timestamp) -> Self {
        Self::reading(client, now, Scope::Single)
    }

    /// A world in which nothing is read yet, for answers about all objects of one namespace, or of
    /// the cluster.
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

    /// Looks up one object. If it was not read yet, requests it for the next [`Self::fulfil`]. The
    /// namespace is empty for a cluster-scoped kind. An empty name is absent.
    pub fn get<K: Readable>(&self, namespace: &str, name: &str) -> Look<Arc<K>> {
        if name.is_empty() {
            return Look::Absent;
        }
        if self.lists::<K>() {
            let all = self.listed::<K, K>(namespace, question::listed::<K>);
            return all.and_then(|all| all.get(namespace, name).cloned().map(Arc::new));
        }
        self.look(Question::new::<K>(namespace, name), question::one::<K>)
    }

    /// Looks up these objects of a namespace, in the order of the names: each with a GET, or all
    /// with one LIST if there are many or if [`Self::get`] uses a LIST, too.
    pub fn each<'a, K: Readable>(
        &self,
        namespace: &str,
        names: impl ExactSizeIterator<Item = &'a str>,
    ) -> Vec<Look<K>> {
        if names.len() <= ONE_BY_ONE || self.lists::<K>() {
            let read = names.map(|name| self.get(namespace, name).map(Arc::unwrap_or_clone));
            return read.collect();
        }
        let Some(all) = self.list::<K>(namespace, Selection::default()).found() else {
            return names.map(|_| Look::Unread).collect();
        };
        let read = names.map(|name| {
            let object = all.iter().find(|object| object.name_any() == name);
            object.cloned().map_or(Look::Absent, Look::Found)
        });
        read.collect()
    }

    /// Looks up whether an object exists, and requests its metadata if they were not read yet. Its
    /// content is not read.
    pub fn metadata<K: Readable>(&self, namespace: &str, name: &str) -> Look<Arc<Metadata<K>>> {
        if self.lists::<K>() {
            let all = self.listed::<K, Metadata<K>>(namespace, question::listed_metadata::<K>);
            return all.and_then(|all| all.get(namespace, name).cloned().map(Arc::new));
        }
        let question = Question::new::<K>(namespace, name).returning::<Metadata<K>>();
        self.look(question, question::metadata::<K>)
    }

    /// Looks up the selected objects of a namespace, or of all namespaces if it is empty, and
    /// requests them if they were not read yet. The selection is ignored if all objects of the
    /// kind are read at once, so a caller has to filter the result.
    pub fn list<K: Readable>(
        &self,
        namespace: &str,
        selection: Selection<'_>,
    ) -> Look<Arc<Vec<K>>> {
        let all_namespaces = namespace.is_empty() && self.scope == Scope::Namespace;
        if self.lists::<K>() && !all_namespaces {
            let all = self.listed::<K, K>(namespace, question::listed::<K>);
            return all.map(|all| match namespace {
                "" => all.everywhere(),
                _ => all.in_namespace(namespace),
            });
        }
        let question = Question {
            labels: selection.labels.to_owned(),
            fields: selection.fields.to_owned(),
            ..Question::new::<K>(namespace, "")
        };
        self.look(question.returning::<Vec<K>>(), question::all::<K>)
    }

    /// Looks up all objects of a kind, in the namespace or, if it is none, in the cluster. The
    /// result has one list for each namespace.
    pub fn every<K: Readable>(&self, namespace: Option<&str>) -> Look<Vec<Arc<Vec<K>>>> {
        match namespace {
            Some(namespace) => self
                .list(namespace, Selection::default())
                .map(|all| vec![all]),
            None => {
                let all = self.listed::<K, K>("", question::listed::<K>);
                all.map(|all| all.namespaces())
            }
        }
    }

    /// Looks up the pods of a namespace that name the claim, and requests all pods of the namespace
    /// if they were not read yet: the API server cannot select pods by their claims.
    pub fn users(&self, namespace: &str, claim: &str) -> Look<Vec<Pod>> {
        if self.lists::<Pod>() {
            let all = self.list::<Pod>(namespace, Selection::default());
            let users = |all: Arc<Vec<Pod>>| {
                let users = all.iter().filter(|pod| pod.rules.names(claim));
                users.cloned().collect()
            };
            return all.map(users);
        }
        let question = Question::new::<Pod>(namespace, "").returning::<Vec<PodOfClaims>>();
        let about = question.description();
        let all = self.look::<Vec<PodOfClaims>>(question, question::pods_of_claims::<Pod>);
        let Some(all) = all.found() else {
            return Look::Unread;
        };
        let users = all.iter().filter(|pod| pod.names(claim));
        match users.map(PodOfClaims::parse).collect() {
            Ok(users) => Look::Found(users),
            Err(error) => {
                let sentence = format!("{about} could not be read: {error}");
                self.unparsed.borrow_mut().insert(sentence);
                Look::Unread
            }
        }
    }

    /// The number of API calls so far.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// The objects that could not be read, each with its error, as sentences.
    pub fn unread(&self) -> Vec<String> {
        let failed = self.read.iter().filter_map(|(question, reading)| {
            let error = reading.as_ref().err()?;
            Some(format!(
                "{} could not be read: {error}",
                question.description()
            ))
        });
        let unparsed = self.unparsed.borrow();
        let all = failed.chain(unparsed.iter().cloned());
        all.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Reads the requested objects. Those beyond the maximum number of API calls are recorded as
    /// unread. Returns whether any were requested: the explanation then has to run again.
    pub async fn fulfil(&mut self) -> bool {
        let mut requested = std::mem::take(self.requested.get_mut());
        let any = !requested.is_empty();
        let most = match self.scope {
            Scope::Single => MOST_CALLS,
            Scope::Namespace | Scope::Cluster => MOST_CALLS_FOR_ALL,
        };
        let room = most.saturating_sub(self.calls);
        let beyond = requested.keys().nth(room).cloned();
        if let Some(first) = beyond {
            let refused = requested.split_off(&first).into_keys();
            let error = format!("one answer makes at most {most} API calls");
            let refused = refused.map(|question| (question, Err(error.clone())));
            self.read.extend(refused);
        }
        let reads = requested.into_iter().map(|(question, fetch)| {
            let client = self.client.clone();
            async move { (question.clone(), fetch(client, question).await) }
        });
        let read = join_all(reads).await;
        self.calls += read.len();
        self.read.extend(read);
        any
    }

    /// Whether this world reads all objects of this kind at once.
    fn lists<K: Readable>(&self) -> bool {
        let plural = &*K::plural(&());
        match self.scope {
            Scope::Single => false,
            Scope::Namespace => LISTED.contains(&plural),
            Scope::Cluster => LISTED.contains(&plural) || plural == "namespaces",
        }
    }

    /// Looks up all objects of the kind `K`, each parsed as `T`: those of the cluster if the scope
    /// is [`Scope::Cluster`], else those of the namespace.
    fn listed<K: Readable, T: Send + Sync + 'static>(
        &self,
        namespace: &str,
        fetch: Fetch,
    ) -> Look<Arc<Listed<T>>> {
        let namespace = match self.scope {
            Scope::Cluster => "",
            Scope::Single | Scope::Namespace => namespace,
        };
        let question = Question::new::<K>(namespace, "").returning::<Listed<T>>();
        self.look(question, fetch)
    }

    fn look<T: Send + Sync + 'static>(&self, question: Question, fetch: Fetch) -> Look<Arc<T>> {
        match self.read.get(&question) {
            Some(Ok(Some(object))) => match object.clone().downcast::<T>() {
                Ok(object) => Look::Found(object),
                Err(_) => Look::Unread,
            },
            Some(Ok(None)) => Look::Absent,
            Some(Err(_)) => Look::Unread,
            None => {
                self.requested.borrow_mut().insert(question, fetch);
                Look::Unread
            }
        }
    }
}
