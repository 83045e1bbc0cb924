//! Finds the Leases of Volume Warden's installations, whatever their names are, so that `drain`
//! does not run beside a running installation.

use crate::{cluster::LeaseName, component::ComponentRef, installation};
use anyhow::{Context as _, bail};
use k8s_openapi::api::{coordination::v1::Lease, rbac::v1::ClusterRoleBinding};
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

/// A Lease that elects the leader of at least one of the components that are drained.
#[derive(Clone, Debug)]
pub struct FoundLease {
    /// Namespace of the Lease, which may differ from that of the Lease that the flags select.
    pub namespace: String,
    /// Name of the Lease, whatever flags chose it.
    pub name: String,
    /// The identity of the holder; empty if the Lease was released.
    pub holder: String,
}

impl FoundLease {
    /// Returns whether `other` has the same namespace and name; the identity does not matter.
    pub fn is(&self, other: &LeaseName) -> bool {
        self.namespace == other.namespace && self.name == other.name
    }

    /// Describes the Lease and its holder, as a part of a sentence.
    pub fn description(&self) -> String {
        let Self {
            namespace,
            name,
            holder,
        } = self;
        if holder.is_empty() {
            format!("the Lease {namespace}/{name} exists")
        } else {
            format!("the Lease {namespace}/{name} is held by {holder}")
        }
    }

    /// Returns whether `drain` with this Lease removes nothing until the holder ends, or until this
    /// Lease of another namespace is deleted.
    pub fn prevents(&self, lease: &LeaseName) -> bool {
        !self.holder.is_empty() || self.namespace != lease.namespace
    }
}

/// Lists the Leases of these components in the namespace `own` and in those in which Volume Warden
/// is installed: see [`installation`]. Leases with its labels in other namespaces are only logged.
///
/// # Errors
/// When the Leases or the ClusterRoleBindings cannot be listed.
pub async fn of(
    client: &Client,
    components: &[ComponentRef],
    own: &str,
) -> anyhow::Result<Vec<FoundLease>> {
    let bindings = list::<ClusterRoleBinding>(client).await?;
    let installed = installation::namespaces(&bindings);
    let mut leases = list::<Lease>(client).await?;
    leases.retain(|lease| installation::leads_any(lease, components));
    let found = leases.into_iter().map(found);
    let (counting, foreign): (Vec<_>, Vec<_>) =
        found.partition(|lease| lease.namespace == own || installed.contains(&*lease.namespace));
    if let Some(first) = foreign.first() {
        tracing::warn!(
            leases = foreign.len(),
            lease = format!("{}/{}", first.namespace, first.name),
            "ignoring Leases with the labels of Volume Warden: no ClusterRoleBinding with the label {} has a service account of their namespace as a subject",
            installation::selector(),
        );
    }
    Ok(counting)
}

async fn list<K>(client: &Client) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned,
{
    let kind = K::plural(&());
    let listed = installation::labelled(client).await;
    listed.with_context(|| format!("the {kind} could not be listed, so nothing is removed"))
}

/// Checks that no Lease is in another namespace, held or not. Such a Lease belongs to another
/// installation, and `drain` must not acquire it. If that installation is the one to drain, the
/// namespace of the flags is wrong, and `drain` would not find the copies of volumes there.
///
/// # Errors
/// When there is a Lease in another namespace.
pub fn none_elsewhere(found: &[FoundLease], lease: &LeaseName) -> anyhow::Result<()> {
    let mut elsewhere = found
        .iter()
        .filter(|found| found.namespace != lease.namespace);
    match elsewhere.next() {
        Some(other) => bail!(
            "{}, for components that are to be drained. If this is the installation to drain, scale it to 0 and add --system-namespace={}; if \
             not, drain only other --components; if it is gone, delete its Lease",
            other.description(),
            other.namespace,
        ),
        None => Ok(()),
    }
}

/// Returns the Lease that the flags select, and all other found Leases of its namespace. `drain`
/// acquires them all: while it holds them, no process that waits for one starts to write.
pub fn all_here(found: &[FoundLease], lease: &LeaseName) -> Vec<LeaseName> {
    let others = found
        .iter()
        .filter(|found| found.namespace == lease.namespace && !found.is(lease));
    let others = others.map(|found| LeaseName {
        name: found.name.clone(),
        labels: Default::default(),
        former: None,
        ..lease.clone()
    });
    let own = LeaseName {
        former: None,
        ..lease.clone()
    };
    [own].into_iter().chain(others).collect()
}

fn found(lease: Lease) -> FoundLease {
    let holder = lease
        .spec
        .as_ref()
        .and_then(|spec| spec.holder_identity.clone());
    FoundLease {
        namespace: lease.namespace().unwrap_or_default(),
        name: lease.name_any(),
        holder: holder.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the Lease `volume-warden/here`, for a Lease of this namespace and holder.
    fn refused(namespace: &str, holder: &str) -> Option<String> {
        let lease = LeaseName {
            namespace: "volume-warden".to_owned(),
            name: "here".to_owned(),
            former: None,
            identity: "drain".to_owned(),
            labels: Default::default(),
        };
        let found = FoundLease {
            namespace: namespace.to_owned(),
            name: "there".to_owned(),
            holder: holder.to_owned(),
        };
        let refused = none_elsewhere(&[found], &lease);
        refused.err().map(|error| error.to_string())
    }

    /// A Lease that was released shows in which namespace the copies of volumes are.
    #[test]
    fn an_installation_in_another_namespace_is_not_overlooked() {
        for (holder, words) in [
            ("", "the Lease storage/there exists"),
            ("one", "the Lease storage/there is held by one"),
        ] {
            let refused = refused("storage", holder).unwrap_or_default();
            assert!(refused.contains(words), "{refused}");
            assert!(refused.contains("--system-namespace=storage"), "{refused}");
        }
        assert_eq!(refused("volume-warden", ""), None);
        assert_eq!(refused("volume-warden", "one"), None, "drain waits for it");
    }
}
