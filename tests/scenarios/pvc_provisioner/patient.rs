//! A Volume Warden per test, behind an interposer. No webhooks are served: the reconciler creates
//! all claims.

use super::support::Askers;
use crate::support::{BINARY, bare};
use anyhow::Result;
use std::collections::BTreeSet;
use volume_warden_controlplane::{Interposer, Rule, Warden, WardenBuilder};

/// A namespace, and the interposer between its Volume Warden and the API server.
pub struct Patient {
    pub askers: Askers,
    pub between: Interposer,
}

impl Patient {
    pub async fn new(label: &str) -> Result<Self> {
        let cluster = bare().await?;
        let account = cluster.service_account_kubeconfig("volume-warden", "volume-warden", None);
        Ok(Self {
            askers: Askers::new(cluster.clone(), label).await?,
            between: Interposer::start(&cluster, account.await?)?,
        })
    }

    /// Uses the Lease identity `id`: the same identity need not wait for a predecessor's Lease to
    /// expire.
    pub fn builder(&self, id: &str) -> WardenBuilder<'_> {
        let namespace = &self.askers.space.name;
        Warden::builder(&self.askers.space.cluster, BINARY)
            .name(format!("{namespace}-{id}"))
            .kubeconfig(self.between.kubeconfig())
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

    /// Requests so far, by method and a part of the path.
    pub fn count(&self, method: &str, path: &str) -> usize {
        let seen = self.between.requests();
        let wanted = seen
            .iter()
            .filter(|seen| seen.method == method && seen.path.contains(path));
        wanted.count()
    }

    /// Number of attempts to create claims so far.
    pub fn posts(&self) -> usize {
        self.count("POST", "/persistentvolumeclaims")
    }

    /// The names of the claims in DELETE requests so far.
    pub fn deleted(&self) -> Vec<String> {
        let seen = self.between.requests().into_iter();
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

pub fn watch_of(resource: &str) -> Rule {
    Rule::on("GET")
        .path_contains(format!("/{resource}"))
        .query_contains("watch=true")
}
