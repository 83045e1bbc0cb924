//! Live reads of one object.

use super::{client::within, live::ApiOf};
use crate::{
    objects::{ObjectName, Tracked},
    telemetry::Metrics,
};
use kube::{Api, Client, Resource, core::NamespaceResourceScope};
use std::{sync::Arc, time::Duration};

/// Reads one object as it is, not as a watch told.
pub struct LiveGet<T: Tracked> {
    api: ApiOf<T>,
    metrics: Arc<Metrics>,
}

impl<T: Tracked> LiveGet<T> {
    /// Reads with what `api` makes of a namespace.
    pub fn new(
        metrics: Arc<Metrics>,
        api: impl Fn(&str) -> Api<T::Wire> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            api: Box::new(api),
            metrics,
        })
    }

    /// Reads objects of a kind that namespaces have.
    pub fn namespaced(metrics: Arc<Metrics>, client: &Client) -> Arc<Self>
    where
        T::Wire: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let client = client.clone();
        Self::new(metrics, move |namespace| {
            Api::namespaced(client.clone(), namespace)
        })
    }

    /// The object, read entirely after this call; nothing where there is none, or none that is tracked.
    ///
    /// # Errors
    /// When it could not be read within `limit`. Nothing may be concluded then.
    pub async fn get(&self, name: &ObjectName, limit: Duration) -> kube::Result<Option<T>> {
        self.metrics.live_read(T::KIND);
        let api = (self.api)(&name.namespace);
        let found = within(limit, api.get_opt(&name.name)).await?;
        Ok(found.and_then(T::track))
    }
}
