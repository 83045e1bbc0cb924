//! How commands find the installations of Volume Warden in a cluster, in whatever namespaces they
//! are: by the labels of their Leases.
//!
//! Every user who may write Leases in one namespace can write one with these labels. So a Lease
//! counts only in a namespace in which an administrator has installed Volume Warden: one with a
//! service account that a ClusterRoleBinding of Volume Warden names.

use crate::{
    cluster::{DEFAULT_CALL_TIMEOUT, with_clamped_times, within},
    component::ComponentRef,
    objects::keys::{self, OWN},
};
use k8s_openapi::api::{coordination::v1::Lease, rbac::v1::ClusterRoleBinding};
use kube::{
    Client, Resource, ResourceExt as _,
    api::{ListParams, ObjectList, Request},
};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};

/// The label of every Lease and every ClusterRoleBinding of Volume Warden, and its value.
pub const PART_OF: (&str, &str) = (keys::PART_OF, "volume-warden");

/// The label selector of the objects of Volume Warden.
pub fn selector() -> String {
    let (label, value) = PART_OF;
    format!("{label}={value}")
}

/// Lists the objects of this kind in the whole cluster that have the label of Volume Warden.
///
/// # Errors
/// When they cannot be listed.
pub async fn labelled<K>(client: &Client) -> kube::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned,
{
    let labelled = ListParams::default().labels(&selector());
    let request = Request::new(K::url_path(&(), None)).list(&labelled);
    let request = request.map_err(kube::Error::BuildRequest)?;
    let listed = with_clamped_times::<ObjectList<K>>(client, request);
    Ok(within(DEFAULT_CALL_TIMEOUT, listed).await?.items)
}

/// The labels of the Lease of a process that runs these components. That of a dry run names no
/// component: its holder writes nothing.
pub fn lease_labels(components: &[ComponentRef], dry_run: bool) -> BTreeMap<String, String> {
    let (part_of, volume_warden) = PART_OF;
    let leads = components.iter().filter(|_| !dry_run);
    let leads = leads.map(|each| format!("{OWN}{each}"));
    let mut labels: BTreeMap<_, _> = leads.map(|key| (key, String::new())).collect();
    labels.insert(part_of.to_owned(), volume_warden.to_owned());
    labels
}

/// Whether the Lease elects, by its labels, the leader of at least one of the components. Its
/// namespace is not considered.
pub fn leads_any(lease: &Lease, components: &[ComponentRef]) -> bool {
    let leads = |each: &ComponentRef| lease.labels().contains_key(&format!("{OWN}{each}"));
    components.iter().any(leads)
}

/// The namespaces in which an administrator has installed Volume Warden: those of the service
/// accounts in these ClusterRoleBindings, which [`selector`] has selected.
pub fn namespaces(bindings: &[ClusterRoleBinding]) -> BTreeSet<&str> {
    let subjects = bindings
        .iter()
        .flat_map(|binding| &binding.subjects)
        .flatten();
    let accounts = subjects.filter(|subject| subject.kind == "ServiceAccount");
    accounts
        .filter_map(|account| account.namespace.as_deref())
        .collect()
}
