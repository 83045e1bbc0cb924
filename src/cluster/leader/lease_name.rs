//! The names of the Leases of a process, and of their holders.

use k8s_openapi::api::coordination::v1::Lease;
use std::collections::BTreeMap;

/// The Leases for which this replica competes, and the identity of the replica.
#[derive(Clone, Debug)]
pub struct LeaseName {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease in this version.
    pub name: String,
    /// Identity of this replica, unique to this process. It is in the Lease while this replica
    /// holds the Lease.
    pub identity: String,
    /// Name of the Lease by which version 0.1.0 would elect the leader of the same components. A
    /// leader holds this Lease, too, so that two versions never lead at once.
    pub former: Option<String>,
    /// Labels that are added to those of the Lease. They name the enabled components, so that
    /// `drain` finds the Lease whatever its name is.
    pub labels: BTreeMap<String, String>,
}

/// Returns the identity of the replica that holds the Lease; empty if none does.
pub(super) fn holder(lease: &Lease) -> &str {
    lease
        .spec
        .as_ref()
        .and_then(|spec| spec.holder_identity.as_deref())
        .unwrap_or_default()
}
