//! The name, namespace, identity and labels of the Lease, by the flags.

use super::LeaseOptions;
use crate::{
    cluster::LeaseName,
    component::ComponentRef,
    components::{
        namespace_gc, pv_protection, pv_releaser, pvc_protection, pvc_provisioner, pvc_retention,
    },
    installation::lease_labels,
    objects::{ControllerId, is_subdomain},
};
use anyhow::bail;
use std::hash::BuildHasher;

/// Name of the Lease of version 0.1.0 with all its components, and the name of the installation
/// that `drain` assumes, because it has no flag `--service-name`.
pub(in crate::cli) const DEFAULT_NAME: &str = "volume-warden";
/// The components of version 0.1.0, which names its Leases after them. A component that was added
/// later has no part in these names.
const V0_1_COMPONENTS: [&str; 6] = [
    pvc_protection::NAME,
    pv_protection::NAME,
    pvc_retention::NAME,
    pvc_provisioner::NAME,
    pv_releaser::NAME,
    namespace_gc::NAME,
];

impl LeaseOptions {
    /// Returns the name, namespace, identity and labels for the Lease of the installation with
    /// this name. All its processes compete for this Lease, whatever their components are. Unless
    /// a flag sets the name, a controller id and a dry run extend it: installations with different
    /// ids must not compete for one Lease, and a dry run must not acquire the Lease of a real run.
    ///
    /// # Errors
    /// When the controller id cannot be part of the name of the Lease.
    pub(in crate::cli) fn name(
        &self,
        (system_namespace, installation): (&str, &str),
        enabled: &[ComponentRef],
        id: &ControllerId,
        dry_run: bool,
    ) -> anyhow::Result<LeaseName> {
        let namespace = self.leader_elect_resource_namespace.clone();
        let (name, former) = match &self.leader_elect_resource_name {
            Some(name) => (name.clone(), None),
            None => {
                let per_id = enabled.iter().any(|each| each.is_per_controller_id());
                let former = v0_1_name(enabled);
                let former = former.map(|name| qualified(name, id, per_id, dry_run));
                let by_id = per_id || is_subdomain(id.as_str());
                let name = qualified(installation.to_owned(), id, by_id, dry_run)?;
                (name, former.transpose()?)
            }
        };
        Ok(LeaseName {
            namespace: namespace.unwrap_or_else(|| system_namespace.to_owned()),
            name,
            former,
            identity: self.leader_elect_identity.clone().unwrap_or_else(identity),
            labels: lease_labels(enabled, dry_run),
        })
    }
}

/// Returns the name that version 0.1.0 gives the Lease of these components, without the id; none if
/// all of them are newer than 0.1.0.
fn v0_1_name(enabled: &[ComponentRef]) -> Option<String> {
    let names = enabled.iter().map(|each| each.name());
    let names: Vec<_> = names
        .filter(|name| V0_1_COMPONENTS.contains(name))
        .collect();
    match names.len() {
        0 => None,
        all if all == V0_1_COMPONENTS.len() => Some(DEFAULT_NAME.to_owned()),
        _ => Some(names.join("-")),
    }
}

/// Returns the name of a Lease with its suffixes: `-<id>` if `by_id` and the id is not the default,
/// and `-dry-run` for a dry run.
fn qualified(
    mut name: String,
    id: &ControllerId,
    by_id: bool,
    dry_run: bool,
) -> anyhow::Result<String> {
    if *id != ControllerId::default() && by_id {
        if !is_subdomain(id.as_str()) {
            bail!(
                "the controller id {id} cannot be part of the name of a Lease; set the name by --leader-elect-resource-name"
            );
        }
        name = format!("{name}-{id}");
    }
    if dry_run {
        name += "-dry-run";
    }
    Ok(name)
}

/// Returns an identity unique to this process. The random part distinguishes two containers of one
/// pod, and a process from its predecessor with the same pid.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let random = std::collections::hash_map::RandomState::new().hash_one(std::process::id());
    format!("{}_{}_{random:x}", host.trim(), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        components::{
            ALL, pv_protection::PvProtection, pv_releaser::PvReleaser,
            pvc_provisioner::PvcProvisioner,
        },
        installation::{PART_OF, leads_any},
    };
    use k8s_openapi::api::coordination::v1::Lease;
    use kube::ResourceExt as _;

    /// The names of the Lease, and of that of version 0.1.0, of an installation with this name.
    fn names(
        installation: &str,
        enabled: &[ComponentRef],
        id: &str,
        dry_run: bool,
    ) -> Option<[String; 2]> {
        let options = LeaseOptions {
            leader_elect_resource_name: None,
            leader_elect_resource_namespace: None,
            leader_elect_identity: None,
        };
        let id = id.parse().ok()?;
        let lease = options.name(("ns", installation), enabled, &id, dry_run);
        let lease = lease.ok()?;
        Some([lease.name, lease.former?])
    }

    /// `why` and `drain` find the Leases of running components by their labels, and a dry run
    /// writes nothing.
    #[test]
    fn the_lease_of_a_dry_run_names_no_component() {
        let options = LeaseOptions {
            leader_elect_resource_name: None,
            leader_elect_resource_namespace: None,
            leader_elect_identity: None,
        };
        for dry_run in [false, true] {
            let id = ControllerId::default();
            let lease = options.name(("ns", "volume-warden"), ALL, &id, dry_run);
            let mut written = Lease::default();
            written.metadata.labels = Some(lease.expect("a Lease").labels);
            let led = ALL.iter().filter(|each| leads_any(&written, &[**each]));
            assert_eq!(led.count(), if dry_run { 0 } else { ALL.len() });
            assert_eq!(written.labels()[PART_OF.0], PART_OF.1);
        }
    }

    #[test]
    fn an_installation_has_one_lease_whatever_its_components_are() {
        let default = ControllerId::default().to_string();
        for (installation, components, id, dry_run, name, former) in [
            (
                "volume-warden",
                ALL,
                &*default,
                false,
                "volume-warden",
                "volume-warden",
            ),
            (
                "volume-warden",
                ALL,
                "blue",
                true,
                "volume-warden-blue-dry-run",
                "volume-warden-blue-dry-run",
            ),
            (
                "volume-warden",
                &[&PvProtection],
                "blue",
                false,
                "volume-warden-blue",
                "pv-protection",
            ),
            (
                "volume-warden",
                &[&PvReleaser],
                &default,
                true,
                "volume-warden-dry-run",
                "pv-releaser-dry-run",
            ),
            (
                "volume-warden",
                &[&PvReleaser],
                "a.b",
                false,
                "volume-warden-a.b",
                "pv-releaser-a.b",
            ),
            (
                "caches",
                &[&PvcProvisioner, &PvReleaser],
                "blue",
                false,
                "caches-blue",
                "pvc-provisioner-pv-releaser-blue",
            ),
            ("caches", ALL, &default, false, "caches", "volume-warden"),
            // Version 0.1.0 has no pvc-trash, so pvc-trash does not change the name of the Lease.
            (
                "caches",
                &ALL[..5],
                &default,
                false,
                "caches",
                "pvc-protection-pv-protection-pvc-retention-pvc-provisioner-pv-releaser",
            ),
            (
                "caches",
                &ALL[..6],
                &default,
                false,
                "caches",
                "pvc-protection-pv-protection-pvc-retention-pvc-provisioner-pv-releaser",
            ),
        ] {
            let found = names(installation, components, id, dry_run);
            let expected = [name, former].map(str::to_owned);
            assert_eq!(found, Some(expected), "{components:?} {id} {dry_run}");
        }
    }

    #[test]
    fn an_id_that_is_no_subdomain_requires_a_lease_name() {
        for id in ["Blue", "a_b", "a..b", "a.-b"] {
            let name = |enabled| names("volume-warden", enabled, id, false);
            assert_eq!(name(&[&PvReleaser]), None, "{id}");
            let without = name(&[&PvProtection]);
            assert!(without.is_some(), "{id}: the name does not contain it");
        }
    }
}
