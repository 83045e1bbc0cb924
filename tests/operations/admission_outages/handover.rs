//! The leader shuts down gracefully.

use crate::support::{BINARY, Space, bare};
use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, ResourceExt,
    api::{WatchEvent, WatchParams},
};
use std::{pin::pin, time::Instant};
use tokio::time::timeout;
use volume_warden_controlplane::{DEFAULT_TIMEOUT, Warden, WardenBuilder, eventually};

/// A namespace with a Lease, for replicas of Volume Warden that handle only this namespace.
struct Replicas {
    space: Space,
    leases: Api<Lease>,
}

impl Replicas {
    async fn new(label: &str) -> Result<Self> {
        let space = Space::new(bare().await?, label).await?;
        let leases = Api::namespaced(space.cluster.client(), "volume-warden");
        Ok(Self { space, leases })
    }

    fn builder(&self, name: &str) -> WardenBuilder<'_> {
        Warden::builder(&self.space.cluster, BINARY)
            .name(format!("{}-{name}", self.space.name))
            .arg(format!("--namespace={}", self.space.name))
            .arg(format!("--leader-elect-resource-name={}", self.space.name))
            .arg(format!("--leader-elect-identity={name}"))
            .arg("--components=pvc-protection")
    }

    async fn leads(&self, name: &str) -> Result<()> {
        eventually(&format!("{name} leads"), async || {
            let holder = holder(self.leases.get(&self.space.name).await?);
            ensure!(holder == name, "{holder}");
            Ok(())
        })
        .await
    }

    /// The holders of the Lease since this resource version, in order, until the holder is `last`.
    async fn holders(&self, resource_version: &str, last: &str) -> Result<Vec<String>> {
        let name = format!("metadata.name={}", self.space.name);
        let of_this_lease = WatchParams::default().fields(&name);
        let mut watch = pin!(self.leases.watch(&of_this_lease, resource_version).await?);
        let mut holders = Vec::new();
        while holders.last().is_none_or(|holder| holder != last) {
            let event = watch.try_next().await?;
            if let WatchEvent::Modified(lease) = event.context("the watch ended")? {
                holders.push(holder(lease));
            }
        }
        holders.dedup();
        Ok(holders)
    }
}

fn holder(lease: Lease) -> String {
    let holder = lease.spec.and_then(|spec| spec.holder_identity);
    holder.unwrap_or_default()
}

/// A leader that is terminated releases its Lease. Another replica acquires the Lease before it
/// expires, and protects a claim.
#[tokio::test]
async fn another_leads_soon_after_a_graceful_stop() -> Result<()> {
    let replicas = Replicas::new("handover").await?;
    let first = replicas.builder("first").start().await?;
    replicas.leads("first").await?;
    let _second = replicas.builder("second").start().await?;
    let lease = replicas.leases.get(&replicas.space.name).await?;
    let resource_version = lease.resource_version().context("a resource version")?;
    let stopped = Instant::now();
    first.process().terminate()?;
    let holders = replicas.holders(&resource_version, "second");
    let mut holders = timeout(DEFAULT_TIMEOUT, holders).await??;
    println!(
        "another replica leads {:?} after SIGTERM",
        stopped.elapsed()
    );
    // The first replica may have renewed the Lease before its termination.
    holders.retain(|holder| holder != "first");
    assert_eq!(
        holders,
        ["", "second"],
        "the first replica did not release the Lease"
    );
    replicas.space.create_claim("data").await?;
    replicas.space.claim_is_protected("data").await
}
