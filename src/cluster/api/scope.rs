//! Where objects of a kind are read.

use crate::objects::Tracked;
use kube::{
    Api, Client, Resource,
    core::{ClusterResourceScope, NamespaceResourceScope},
};

/// What reads the objects of a namespace.
pub(crate) type ApiOf<T> = Box<dyn Fn(&str) -> Api<<T as Tracked>::Wire> + Send + Sync>;

/// Of a kind that namespaces have.
pub(crate) fn namespaced<T: Tracked>(client: &Client) -> ApiOf<T>
where
    T::Wire: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let client = client.clone();
    Box::new(move |namespace| Api::namespaced(client.clone(), namespace))
}

/// Of a kind that only the whole cluster has, whose namespace is empty.
pub(crate) fn whole<T: Tracked>(client: &Client) -> ApiOf<T>
where
    T::Wire: Resource<DynamicType = (), Scope = ClusterResourceScope>,
{
    let client = client.clone();
    Box::new(move |_| Api::all(client.clone()))
}

/// Of one namespace, or of all where none is given.
pub fn scoped<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}
