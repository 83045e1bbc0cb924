//! A Volume Warden per test, behind an interposer. No webhooks are served: the reconciler creates
//! all claims.

use super::support::Askers;
use crate::support::{BINARY, bare};
use anyhow::Result;
use std::collections::BTreeSet;
use volume_warden_controlplane::{Interposer, Rule, Warden, WardenBuilder};

/// A namespace, and the interposer between its Volume Warden and the API server.
pub struct FaultFixture {
    pub askers: Askers,
    pub interposer: Interposer,
}

impl FaultFixture {
    pub async fn new(label: &str) -> Result<Self> {
        let cluster = bare().await?;
        Ok(Self {
            askers: Askers::new(cluster.clone(), label).await?,
            interposer: Interposer::for_service_account(&cluster, "volume-warden", "volume-warden")
                .await?,
        })
    }

    /// Uses the Lease identity `id`: the same identity need not wait for a predecessor's Lease to
    /// expire.
    pub fn builder(&self, id: &str) -> WardenBuilder<'_> {
        let namespace = &self.askers.space.name;
        Warden::builder(&self.askers.space.cluster, BINARY)
            .name(format!("{namespace}-{id}"))
            .kubeconfig(self.interposer.kubeconfig())
            .arg(format!("--namespace={namespace}"))
            .arg(format!("--leader-elect-resource-name={namespace}"))
            .arg(format!("--leader-elect-identity={id}"))
            .arg("--components=pvc-provisioner,pvc-protection")
    }

    pub async fn start(&self) -> Result<Warden> {
        self.builder("warden").start().await
    }

    /// Starts with a grace period of one second.
    pub async fn start_impatient(&self) -> Result<Warden> {
        let builder = self.builder("warden").arg("--orphan-grace=1");
        builder.start().await
    }

    /// Number of attempts to create claims so far.
    pub fn posts(&self) -> usize {
        self.interposer.count("POST", "/persistentvolumeclaims")
    }

    /// The names of the claims in DELETE requests so far.
    pub fn deleted(&self) -> Vec<String> {
        let seen = self.interposer.requests().into_iter();
        let deletions = seen.filter(|seen| {
            seen.method == "DELETE" && seen.path.contains("/persistentvolumeclaims/")
        });
        let names: BTreeSet<_> = deletions
            .filter_map(|seen| seen.path.rsplit('/').next().map(str::to_owned))
            .collect();
        Vec::from_iter(names)
    }
}

pub fn claim_posts() -> Rule {
    Rule::on("POST").path_contains("/persistentvolumeclaims")
}

/// Writes of claims whose names begin with `name`.
pub fn claim_write(method: &str, name: &str) -> Rule {
    Rule::on(method).path_contains(format!("/persistentvolumeclaims/{name}"))
}
