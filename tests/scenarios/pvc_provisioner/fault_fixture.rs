//! One Volume Warden for each test, behind an interposer. Volume Warden serves no webhooks, so the
//! reconciler creates all claims.

use super::support::PodSpace;
use crate::support::{BINARY, bare};
use anyhow::Result;
use std::{collections::BTreeSet, time::Instant};
use volume_warden_controlplane::{Interposer, Rule, Warden, WardenBuilder};

/// The namespace of a test, and the interposer between its Volume Warden and the API server.
pub struct FaultFixture {
    pub pod_space: PodSpace,
    pub interposer: Interposer,
}

impl FaultFixture {
    pub async fn new(label: &str) -> Result<Self> {
        let cluster = bare().await?;
        Ok(Self {
            pod_space: PodSpace::new(cluster.clone(), label).await?,
            interposer: Interposer::for_service_account(&cluster, "volume-warden", "volume-warden")
                .await?,
        })
    }

    /// Builds a Volume Warden with the Lease identity `id`. A later Volume Warden with the same
    /// identity does not wait until the Lease expires.
    pub fn builder(&self, id: &str) -> WardenBuilder<'_> {
        let namespace = &self.pod_space.space.name;
        Warden::builder(&self.pod_space.space.cluster, BINARY)
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

    /// Starts Volume Warden with a grace period of one second for claims that await their pods.
    pub async fn start_with_short_grace_period(&self) -> Result<Warden> {
        let builder = self.builder("warden").arg("--orphan-grace=1");
        builder.start().await
    }

    /// The number of POST requests for claims so far.
    pub fn posts(&self) -> usize {
        self.interposer.count("POST", "/persistentvolumeclaims")
    }

    /// The names of the claims in DELETE requests so far, sorted.
    pub fn deleted_claims(&self) -> Vec<String> {
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

/// The number of times that Volume Warden may have retried a refused creation since then. It pauses
/// for half a minute before each retry, which a busy machine may need for what the test waits for.
pub fn retries_since(began: Instant) -> usize {
    usize::try_from(began.elapsed().as_secs() / 30).unwrap_or(usize::MAX)
}

pub fn claim_posts() -> Rule {
    Rule::on("POST").path_contains("/persistentvolumeclaims")
}

/// Requests with this method for claims whose names begin with `name`.
pub fn claim_write(method: &str, name: &str) -> Rule {
    Rule::on(method).path_contains(format!("/persistentvolumeclaims/{name}"))
}
