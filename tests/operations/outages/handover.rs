//! The leader stops in order.

use crate::support::{BINARY, Space, bare};
use anyhow::{Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use std::time::{Duration, Instant};
use volume_warden_controlplane::{Warden, WardenBuilder, eventually};

/// Left to itself, the Lease would expire no earlier.
const EXPIRY: Duration = Duration::from_secs(15);

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
        Warden::builder(self.space.cluster, BINARY)
            .name(format!("{}-{name}", self.space.name))
            .arg(format!("--namespace={}", self.space.name))
            .arg(format!("--lease-lock-name={}", self.space.name))
            .arg(format!("--lease-lock-id={name}"))
            .arg("--components=pvc-protection")
    }

    async fn leads(&self, name: &str) -> Result<()> {
        eventually(&format!("{name} leads"), async || {
            let spec = self.leases.get(&self.space.name).await?.spec;
            let holder = spec.and_then(|spec| spec.holder_identity);
            ensure!(holder.as_deref() == Some(name), "{holder:?}");
            Ok(())
        })
        .await
    }
}

/// The Lease is let go at once, and whoever follows looks for it often enough: another leads and works long before the first has seen its
/// last review answered, and before the Lease would have expired.
#[tokio::test]
async fn another_leads_soon_after_a_graceful_stop() -> Result<()> {
    let replicas = Replicas::new("handover").await?;
    let first = replicas.builder("first").start().await?;
    replicas.leads("first").await?;
    let _second = replicas.builder("second").start().await?;
    let stopped = Instant::now();
    first.process().terminate()?;
    replicas.leads("second").await?;
    let took = stopped.elapsed();
    println!("another leads {took:?} after SIGTERM");
    ensure!(took < EXPIRY, "the Lease was left to expire: {took:?}");
    replicas.space.create_claim("data").await?;
    replicas.space.claim_is_protected("data").await
}
