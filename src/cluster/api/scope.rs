//! Selects the API endpoint of a kind by the namespace of its objects.

use crate::objects::Tracked;
use kube::{
    Api, Client, Resource,
    core::{ClusterResourceScope, NamespaceResourceScope},
};

/// A function that returns the API endpoint of a kind for a namespace.
pub(crate) type ApiOf<T> = fn(Client, &str) -> Api<<T as Tracked>::Wire>;

/// The scope of a kind: a namespace, or the whole cluster.
pub trait Scope<K> {
    /// Returns the API endpoint of the kind. A cluster-scoped kind ignores `namespace`.
    fn api(client: Client, namespace: &str) -> Api<K>;
}

impl<K: Resource<DynamicType = (), Scope = Self>> Scope<K> for NamespaceResourceScope {
    fn api(client: Client, namespace: &str) -> Api<K> {
        Api::namespaced(client, namespace)
    }
}

impl<K: Resource<DynamicType = (), Scope = Self>> Scope<K> for ClusterResourceScope {
    fn api(client: Client, _: &str) -> Api<K> {
        Api::all(client)
    }
}

/// Returns the endpoint for one namespace, or for all namespaces if `namespace` is none.
pub fn scoped<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}
