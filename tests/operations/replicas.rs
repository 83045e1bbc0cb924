//! Leader election among several replicas.

use crate::support::{BINARY, Space, bare, lease_holder};
use anyhow::{Context, Result};
use volume_warden_controlplane::{Interposer, Rule, Warden, WardenBuilder, eventually};

/// Replicas that manage one namespace, with a Lease of their own.
struct Replicas {
    space: Space,
}

impl Replicas {
    async fn new(label: &str) -> Result<Self> {
        Ok(Self {
            space: Space::new(bare().await?, label).await?,
        })
    }

    async fn start(&self, name: &str) -> Result<Warden> {
        self.builder(name).start().await
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
            let holder = lease_holder(&self.space.cluster, &self.space.name).await?;
            anyhow::ensure!(holder == name, "{holder:?}");
            Ok(())
        })
        .await
    }

    /// Creates and deletes a claim, which shows that a leader adds and removes its finalizer.
    async fn a_leader_reconciles(&self, claim: &str) -> Result<()> {
        self.space.create_claim(claim).await?;
        self.space.claim_is_protected(claim).await?;
        self.space.delete_claim(claim).await?;
        self.space.claim_is_gone(claim).await
    }
}

async fn reports_leadership(warden: &Warden, leads: bool) -> Result<()> {
    let line = format!("volume_warden_leader {}", u8::from(leads));
    eventually(&line, async || {
        anyhow::Ok(warden.metrics().await?.lines().any(|each| each == line))
    })
    .await
}

#[tokio::test]
async fn when_the_leader_is_killed_another_takes_over() -> Result<()> {
    let replicas = Replicas::new("killed-leader").await?;
    let first = replicas.start("first").await?;
    replicas.leads("first").await?;
    let second = replicas.start("second").await?;
    replicas.a_leader_reconciles("before").await?;
    reports_leadership(&second, false).await?;
    replicas.space.create_claim("pending").await?;
    first.process().kill()?;
    replicas.leads("second").await?;
    reports_leadership(&second, true).await?;
    replicas.space.claim_is_protected("pending").await?;
    replicas.a_leader_reconciles("after").await
}

/// A leader that is stopped releases the Lease, so the next leader does not wait until it expires.
#[tokio::test]
async fn a_leader_that_stops_hands_over() -> Result<()> {
    let replicas = Replicas::new("stopped-leader").await?;
    let first = replicas.start("first").await?;
    replicas.leads("first").await?;
    let status = first.stop().await?;
    assert!(status.success(), "{status}");
    assert_eq!(
        lease_holder(&replicas.space.cluster, &replicas.space.name).await?,
        ""
    );
    let _second = replicas.start("second").await?;
    replicas.leads("second").await?;
    replicas.a_leader_reconciles("after").await
}

/// A leader that was paused for longer than its Lease writes nothing when it resumes with pending
/// work. It becomes a follower, and leads again later. The writes of the second leader are held, so
/// any write would come from the first one.
#[tokio::test]
async fn a_paused_leader_steps_down_and_continues_as_follower() -> Result<()> {
    let replicas = Replicas::new("paused-leader").await?;
    let (space, cluster) = (&replicas.space, replicas.space.cluster.clone());
    let first = replicas.start("first").await?;
    replicas.leads("first").await?;
    space.create_claim("data").await?;
    space.claim_is_protected("data").await?;
    let interposer =
        Interposer::for_service_account(&cluster, "volume-warden", "volume-warden").await?;
    let held = interposer.add(
        Rule::on("PATCH")
            .path_contains("/persistentvolumeclaims/")
            .hold(),
    );
    let second = replicas
        .builder("second")
        .kubeconfig(interposer.kubeconfig())
        .start()
        .await?;

    first.process().pause()?;
    space.delete_claim("data").await?;
    replicas.leads("second").await?;
    held.held(1).await?;
    let mark = cluster.audit().mark()?;
    first.process().resume()?;
    reports_leadership(&first, false).await?;
    // Only a follower reads the Lease. After a few reads it has also seen the deletion.
    let calls = eventually("the paused leader follows", async || {
        let calls = cluster.audit().since(mark)?.by_user_agent("volume-warden/");
        let reads = calls
            .iter()
            .filter(|call| call.verb == "get" && call.name == space.name)
            .count();
        anyhow::Ok(Some(calls).filter(|_| reads >= 4))
    })
    .await?;
    let writes = calls
        .writes()
        .iter()
        .filter(|call| call.namespace == space.name)
        .count();
    assert_eq!(writes, 0, "{calls:?}");
    assert_eq!(
        lease_holder(&replicas.space.cluster, &replicas.space.name).await?,
        "second"
    );

    drop(held);
    space.claim_is_gone("data").await?;
    let status = second.stop().await.context("stop")?;
    assert!(status.success(), "{status}");
    replicas.leads("first").await?;
    replicas.a_leader_reconciles("after").await
}
