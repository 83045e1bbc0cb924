//! One API call of an answer: what it reads, and how.

use super::{
    Readable,
    listed::{Listed, PodOfClaims, UserOfClaims},
};
use crate::{
    cluster::{
        DEFAULT_CALL_TIMEOUT, error_message, existing, read_page, with_clamped_times, within,
    },
    objects::{Pod, Tracked},
};
use futures::future::BoxFuture;
use kube::{
    Api, Client,
    api::{GetParams, ListParams, ObjectList, PartialObjectMeta, Request},
};
use serde::de::DeserializeOwned;
use std::{
    any::{Any, TypeId},
    sync::Arc,
    time::Duration,
};

/// Time limit of a LIST of `why --stuck`, which reads all objects of a kind.
const SURVEY_LIMIT: Duration = Duration::from_secs(60);

/// One call to the API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ApiCall {
    pub(super) kind: TypeId,
    pub(super) plural: String,
    pub(super) namespace: String,
    /// The name of the object; empty for a LIST.
    pub(super) name: String,
    pub(super) labels: String,
    pub(super) fields: String,
}

pub(super) type Metadata<K> = PartialObjectMeta<K>;
pub(super) type Object = Arc<dyn Any + Send + Sync>;
/// The object or the list, none if the object does not exist, or the error.
pub(super) type CallResult = Result<Option<Object>, String>;
pub(super) type Fetch = fn(Client, ApiCall) -> BoxFuture<'static, CallResult>;

impl ApiCall {
    pub(super) fn new<K: Readable>(namespace: &str, name: &str) -> Self {
        Self {
            kind: TypeId::of::<K>(),
            plural: K::plural(&()).into_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            labels: String::new(),
            fields: String::new(),
        }
    }

    /// Returns the same call, whose result is read as another type.
    pub(super) fn returning<T: 'static>(self) -> Self {
        let kind = TypeId::of::<T>();
        Self { kind, ..self }
    }

    pub(super) fn description(&self) -> String {
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

    fn selection(&self) -> ListParams {
        ListParams::default()
            .labels(&self.labels)
            .fields(&self.fields)
    }
}

/// Reads one object by a GET; none if the API server reports that it does not exist.
pub(super) fn one<K: Readable>(client: Client, call: ApiCall) -> BoxFuture<'static, CallResult> {
    Box::pin(async move {
        let request = call.request::<K>();
        let request = request.get(&call.name, &GetParams::default());
        let request = request.map_err(|error| error.to_string())?;
        reading(
            within(
                DEFAULT_CALL_TIMEOUT,
                with_clamped_times::<K>(&client, request),
            )
            .await,
        )
    })
}

/// Reads the metadata of one object by a GET, without its content.
pub(super) fn metadata<K: Readable>(
    client: Client,
    call: ApiCall,
) -> BoxFuture<'static, CallResult> {
    Box::pin(async move {
        let request = call.request::<K>();
        let request = request.get_metadata(&call.name, &GetParams::default());
        let request = request.map_err(|error| error.to_string())?;
        reading(
            within(
                DEFAULT_CALL_TIMEOUT,
                with_clamped_times::<Metadata<K>>(&client, request),
            )
            .await,
        )
    })
}

/// Lists objects within [`DEFAULT_CALL_TIMEOUT`], as for single objects.
pub(super) fn all<K: Readable>(client: Client, call: ApiCall) -> BoxFuture<'static, CallResult> {
    Box::pin(async move {
        let request = call.request::<K>().list(&call.selection());
        let items = list::<K>(client, request, DEFAULT_CALL_TIMEOUT).await?;
        Ok(Some(Arc::new(items) as Object))
    })
}

/// Lists the pods of a namespace in protobuf, and keeps those that may use claims.
pub(super) fn users_of_claims(client: Client, call: ApiCall) -> BoxFuture<'static, CallResult> {
    Box::pin(async move {
        let api = Api::namespaced(client, &call.namespace);
        let selection = call.selection();
        let read = within(DEFAULT_CALL_TIMEOUT, read_page::<Pod>(&api, &selection)).await;
        let pods = read.map_err(|error| error_message(&error))?.items;
        let users = pods.into_iter().filter_map(|pod| {
            let name = pod.metadata.name.clone()?;
            Some((name, Pod::track(pod)?))
        });
        let users: Vec<UserOfClaims> = users.collect();
        Ok(Some(Arc::new(users) as Object))
    })
}

/// Lists the pods of a namespace, and keeps those that name at least one claim.
pub(super) fn pods_of_claims<K: Readable>(
    client: Client,
    call: ApiCall,
) -> BoxFuture<'static, CallResult> {
    Box::pin(async move {
        let request = call.request::<K>().list(&call.selection());
        let pods = list::<PodOfClaims>(client, request, DEFAULT_CALL_TIMEOUT).await?;
        let users: Vec<_> = pods.into_iter().filter(PodOfClaims::names_any).collect();
        Ok(Some(Arc::new(users) as Object))
    })
}

/// Lists all objects of a kind, within [`SURVEY_LIMIT`], sorted into [`Listed`].
pub(super) fn listed<K: Readable>(client: Client, call: ApiCall) -> BoxFuture<'static, CallResult> {
    Box::pin(async move {
        let request = call.request::<K>().list(&call.selection());
        let items = list::<K>(client, request, SURVEY_LIMIT).await?;
        Ok(Some(Arc::new(Listed::of(items)) as Object))
    })
}

/// Lists the metadata of all objects of a kind, within [`SURVEY_LIMIT`].
pub(super) fn listed_metadata<K: Readable>(
    client: Client,
    call: ApiCall,
) -> BoxFuture<'static, CallResult> {
    Box::pin(async move {
        let request = call.request::<K>().list_metadata(&call.selection());
        let items = list::<Metadata<K>>(client, request, SURVEY_LIMIT).await?;
        Ok(Some(Arc::new(Listed::of(items)) as Object))
    })
}

/// Lists all objects in one response: kube-apiserver can answer such a LIST from its watch cache,
/// but many versions read each page of a LIST in pages from etcd.
async fn list<K: DeserializeOwned + Clone>(
    client: Client,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    limit: Duration,
) -> Result<Vec<K>, String> {
    let request = request.map_err(|error| error.to_string())?;
    let listed = with_clamped_times::<ObjectList<K>>(&client, request);
    let listed = within(limit, listed).await;
    Ok(listed.map_err(|error| error_message(&error))?.items)
}

fn reading<T: Send + Sync + 'static>(result: kube::Result<T>) -> CallResult {
    let found = existing(result).map_err(|error| error_message(&error))?;
    Ok(found.map(|object| Arc::new(object) as Object))
}
