//! Live reads of one object.

use super::evidence::Evidence;
use crate::cluster::api::ApiOf;
use crate::cluster::api::existing;
use crate::cluster::api::scope;
use crate::cluster::api::within;
use crate::{
    objects::{ObjectName, Tracked},
    telemetry::Metrics,
};
use kube::{
    Client, Resource,
    core::{ClusterResourceScope, NamespaceResourceScope},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Reads one object from the API server, not from a watch cache.
pub struct LiveGet<T: Tracked> {
    api: ApiOf<T>,
    metrics: Arc<Metrics>,
}

impl<T: Tracked> LiveGet<T> {
    /// Reads with what `api` makes of a namespace.
    fn new(metrics: Arc<Metrics>, api: ApiOf<T>) -> Arc<Self> {
        Arc::new(Self { api, metrics })
    }

    /// Reads objects of a kind that namespaces have.
    pub fn namespaced(metrics: Arc<Metrics>, client: &Client) -> Arc<Self>
    where
        T::Wire: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Self::new(metrics, scope::namespaced::<T>(client))
    }

    /// Reads objects of a kind that only the whole cluster has, whose namespace is empty.
    pub fn whole(metrics: Arc<Metrics>, client: &Client) -> Arc<Self>
    where
        T::Wire: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    {
        Self::new(metrics, scope::whole::<T>(client))
    }

    /// The object, read entirely after this call; nothing where there is none, or none that is
    /// tracked.
    ///
    /// # Errors
    /// When it could not be read within `limit`. Nothing may be concluded then.
    pub async fn get(&self, name: &ObjectName, limit: Duration) -> kube::Result<Option<T>> {
        Ok(self.read(name, limit).await?.value)
    }

    /// The same, for an action that rests on it.
    ///
    /// # Errors
    /// When it could not be read within `limit`. Nothing may be concluded then.
    pub async fn read(
        &self,
        name: &ObjectName,
        limit: Duration,
    ) -> kube::Result<Evidence<Option<T>>> {
        self.metrics.feeds.live_read(T::KIND);
        let began = Instant::now();
        let api = (self.api)(&name.namespace);
        let read = within(limit, api.get(&name.name)).await;
        Ok(Evidence::new(existing(read)?.and_then(T::track), began))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Namespace;
    use kube::client::Body;

    async fn answered(body: &'static str) -> kube::Result<Option<Namespace>> {
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let response = http::Response::builder().status(404);
            let response = response.body(Body::from(body.as_bytes().to_vec()));
            std::future::ready(Ok::<_, std::io::Error>(response.expect("a response")))
        });
        let client = Client::new(service, "default");
        let get = LiveGet::whole(Arc::new(Metrics::new()), &client);
        let name = ObjectName::new("", "shop");
        get.get(&name, Duration::from_secs(1)).await
    }

    #[tokio::test]
    async fn only_the_api_server_can_say_that_an_object_does_not_exist() {
        let status = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound", "message": "m"}"#;
        assert!(matches!(answered(status).await, Ok(None)));
        assert!(answered("404 page not found").await.is_err());
        assert!(answered("{}").await.is_err());
    }
}
