//! The objects that one answer of `why` has read, and the reads that it still requests.

use crate::cluster::{UNHURRIED, within};
use futures::future::{BoxFuture, join_all};
use k8s_openapi::jiff::Timestamp;
use kube::{
    Client, Resource, ResourceExt,
    api::{GetParams, ListParams, ObjectList, PartialObjectMeta, Request},
};
use serde::de::DeserializeOwned;
use std::{
    any::{Any, TypeId},
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Maximum number of API calls for one answer. Objects that would need more calls stay unread,
/// which the answer reports.
const MOST_CALLS: usize = 8;

/// Maximum number of objects that are read with one GET each, where their names are known. More are
/// read with one LIST.
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

/// The result of a lookup in [`World`].
#[derive(Clone, Debug, PartialEq)]
pub enum Look<T> {
    /// The object exists.
    Found(T),
    /// The object does not exist.
    Absent,
    /// Not known: the object is read before the next lookup, or it could not be read.
    Unread,
}

impl<T> Look<T> {
    /// The object, if it was read and exists.
    pub fn found(self) -> Option<T> {
        match self {
            Self::Found(found) => Some(found),
            Self::Absent | Self::Unread => None,
        }
    }
}

/// Selects objects of a namespace for a LIST.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    /// A label selector; empty selects all objects.
    pub labels: &'a str,
    /// A field selector; empty selects all objects.
    pub fields: &'a str,
}

/// What was read so far, and what is wished for.
pub struct World {
    /// The time of the answer, to which all ages are relative.
    pub now: Timestamp,
    client: Client,
    read: BTreeMap<Question, Reading>,
    claim_requests: RefCell<BTreeMap<Question, Fetch>>,
    calls: usize,
}

/// One call to the API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    kind: TypeId,
    plural: String,
    namespace: String,
    /// The name of the object; empty for a LIST.
    name: String,
    labels: String,
    fields: String,
}

type Metadata<K> = PartialObjectMeta<K>;
type Object = Arc<dyn Any + Send + Sync>;
type Reading = Result<Option<Object>, String>;
type Fetch = fn(Client, Question) -> BoxFuture<'static, Reading>;

impl World {
    /// A world in which nothing is read yet.
    pub fn new(client: Client, now: Timestamp) -> Self {
        Self {
            now,
            client,
            read: BTreeMap::new(),
            claim_requests: RefCell::default(),
            calls: 0,
        }
    }

    /// Looks up one object, and requests it if it was not read yet. The namespace is empty for a
    /// cluster-scoped kind.
    pub fn get<K: Readable>(&self, namespace: &str, name: &str) -> Look<Arc<K>> {
        if name.is_empty() {
            return Look::Absent;
        }
        self.look(Question::new::<K>(namespace, name), fetch_one::<K>)
    }

    /// Looks up these objects of a namespace, in the order of the names: few of them with one GET
    /// each, more with one LIST.
    pub fn each<'a, K: Readable>(
        &self,
        namespace: &str,
        names: impl ExactSizeIterator<Item = &'a str>,
    ) -> Vec<Look<K>> {
        if names.len() <= ONE_BY_ONE {
            let read = names.map(|name| match self.get(namespace, name) {
                Look::Found(object) => Look::Found(Arc::unwrap_or_clone(object)),
                Look::Absent => Look::Absent,
                Look::Unread => Look::Unread,
            });
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
        let question = Question {
            kind: TypeId::of::<Metadata<K>>(),
            ..Question::new::<K>(namespace, name)
        };
        self.look(question, fetch_metadata::<K>)
    }

    /// Looks up the selected objects of a namespace, or of all namespaces if it is empty, and
    /// requests them if they were not read yet.
    pub fn list<K: Readable>(
        &self,
        namespace: &str,
        selection: Selection<'_>,
    ) -> Look<Arc<Vec<K>>> {
        let question = Question {
            labels: selection.labels.to_owned(),
            fields: selection.fields.to_owned(),
            ..Question::new::<K>(namespace, "")
        };
        self.look(question, fetch_all::<K>)
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
        failed.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Reads all requested objects. Returns whether any were requested.
    pub async fn fulfil(&mut self) -> bool {
        let mut wishes = std::mem::take(self.claim_requests.get_mut());
        let any = !wishes.is_empty();
        let room = MOST_CALLS.saturating_sub(self.calls);
        let beyond = wishes.keys().nth(room).cloned();
        if let Some(first) = beyond {
            let refused = wishes.split_off(&first).into_keys();
            let error = format!("one answer makes at most {MOST_CALLS} API calls");
            let refused = refused.map(|question| (question, Err(error.clone())));
            self.read.extend(refused);
        }
        let reads = wishes.into_iter().map(|(question, fetch)| {
            let client = self.client.clone();
            async move { (question.clone(), fetch(client, question).await) }
        });
        let read = join_all(reads).await;
        self.calls += read.len();
        self.read.extend(read);
        any
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
                self.claim_requests.borrow_mut().insert(question, fetch);
                Look::Unread
            }
        }
    }
}

impl Question {
    fn new<K: Readable>(namespace: &str, name: &str) -> Self {
        Self {
            kind: TypeId::of::<K>(),
            plural: K::plural(&()).into_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            labels: String::new(),
            fields: String::new(),
        }
    }

    fn description(&self) -> String {
        let Self {
            plural,
            namespace,
            name,
            ..
        } = self;
        match (namespace.as_str(), name.as_str()) {
            ("", "") => plural.clone(),
            ("", name) => format!("{plural} {name}"),
            (namespace, "") => format!("{plural} in {namespace}"),
            (namespace, name) => format!("{plural} {namespace}/{name}"),
        }
    }

    fn request<K: Readable>(&self) -> Request {
        let namespace = Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        Request::new(K::url_path(&(), namespace))
    }
}

fn fetch_one<K: Readable>(client: Client, question: Question) -> BoxFuture<'static, Reading> {
    Box::pin(async move {
        let request = question.request::<K>();
        let request = request.get(&question.name, &GetParams::default());
        let request = request.map_err(|error| error.to_string())?;
        reading(within(UNHURRIED, client.request::<K>(request)).await)
    })
}

fn fetch_metadata<K: Readable>(client: Client, question: Question) -> BoxFuture<'static, Reading> {
    Box::pin(async move {
        let request = question.request::<K>();
        let request = request.get_metadata(&question.name, &GetParams::default());
        let request = request.map_err(|error| error.to_string())?;
        reading(within(UNHURRIED, client.request::<Metadata<K>>(request)).await)
    })
}

fn reading<T: Send + Sync + 'static>(result: kube::Result<T>) -> Reading {
    match result {
        Ok(object) => Ok(Some(Arc::new(object) as Object)),
        // Only the API server's own NotFound counts. A 404 of a proxy does not say that the object
        // does not exist.
        Err(kube::Error::Api(status)) if status.code == 404 && status.reason == "NotFound" => {
            Ok(None)
        }
        Err(error) => Err(error_message(&error)),
    }
}

fn fetch_all<K: Readable>(client: Client, question: Question) -> BoxFuture<'static, Reading> {
    Box::pin(async move {
        let only = ListParams::default()
            .labels(&question.labels)
            .fields(&question.fields);
        let request = question.request::<K>().list(&only);
        let request = request.map_err(|error| error.to_string())?;
        let listed = within(UNHURRIED, client.request::<ObjectList<K>>(request)).await;
        let listed = listed.map_err(|error| error_message(&error))?;
        Ok(Some(Arc::new(listed.items) as Object))
    })
}

/// The message of the API server, or of the client if there was no answer.
fn error_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
