//! Faults between one Volume Warden and the API server. Test cases PVC-* that need fault injection.
//! Each scenario starts a Volume Warden for its own namespace. Its requests pass through an
//! interposer, which holds, refuses or cuts single requests.

use crate::support::{BINARY, Space, bare, on_node};
use anyhow::{Result, ensure};
use kube::{
    ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::json;
use volume_warden_controlplane::{Interposer, Rule, Warden, WardenBuilder, eventually};

/// A namespace, and the interposer between its Volume Warden and the API server.
struct FaultFixture {
    space: Space,
    interposer: Interposer,
}

impl FaultFixture {
    async fn new(label: &str) -> Result<Self> {
        let cluster = bare().await?;
        let space = Space::new(cluster.clone(), label).await?;
        let interposer =
            Interposer::for_service_account(&cluster, "volume-warden", "volume-warden").await?;
        Ok(Self { space, interposer })
    }

    fn builder(&self) -> WardenBuilder<'_> {
        Warden::builder(&self.space.cluster, BINARY)
            .name(format!("warden-{}", self.space.name))
            .kubeconfig(self.interposer.kubeconfig())
            .arg(format!("--namespace={}", self.space.name))
            .arg(format!("--leader-elect-resource-name={}", self.space.name))
            .arg("--components=pvc-protection")
    }

    async fn start(&self) -> Result<Warden> {
        self.builder().start().await
    }

    /// The number of requests so far with this method, and with `part` in the path. Watches and
    /// further pages of a LIST are not counted.
    fn count(&self, method: &str, part: &str) -> usize {
        let counts = |query: &str| !query.contains("watch=true") && !query.contains("continue=");
        self.interposer
            .requests()
            .iter()
            .filter(|seen| seen.method == method && seen.path.contains(part) && counts(&seen.query))
            .count()
    }

    /// Creates these claims, and waits until each has its finalizer.
    async fn create_protected_claims(&self, names: &[&str]) -> Result<()> {
        for name in names {
            self.space.create_claim(name).await?;
        }
        for name in names {
            self.space.claim_is_protected(name).await?;
        }
        Ok(())
    }
}

fn claim_write(name: &str) -> Rule {
    Rule::on("PATCH").path_contains(format!("/persistentvolumeclaims/{name}"))
}

/// PVC-03: the patch that adds the finalizer is refused twice, and succeeds the third time. An
/// Event reports the refusal.
#[tokio::test]
async fn a_refused_finalizer_is_added_in_the_end() -> Result<()> {
    let fixture = FaultFixture::new("refused-add").await?;
    let refusal = fixture.interposer.add(claim_write("data").times(2).respond(
        403,
        "Forbidden",
        "not on my watch",
    ));
    let _warden = fixture.start().await?;
    fixture.space.create_claim("data").await?;
    fixture.space.claim_is_protected("data").await?;
    assert_eq!(
        (
            refusal.taken(),
            fixture.count("PATCH", "/persistentvolumeclaims/data")
        ),
        (2, 3)
    );
    eventually("an Event reports the refusal", async || {
        let events = fixture.space.events_with("FailedAddFinalizer").await?;
        anyhow::Ok(events.iter().any(|event| {
            event
                .message
                .as_deref()
                .unwrap_or("")
                .contains("not on my watch")
        }))
    })
    .await
}

/// PVC-12, PVC-13: the watch of pods is frozen, so the cache has no pod that uses the claim. The
/// live LIST has it.
#[tokio::test]
async fn a_pod_that_the_watch_has_not_reported_holds_its_claim() -> Result<()> {
    let fixture = FaultFixture::new("late-watch").await?;
    let _warden = fixture.start().await?;
    fixture.create_protected_claims(&["used", "unused"]).await?;
    let frozen = fixture
        .interposer
        .add(Rule::watch_of("pods").freeze_stream());
    fixture.space.create_pod("user", "used", on_node()).await?;
    fixture.space.delete_claim("used").await?;
    fixture.space.delete_claim("unused").await?;
    fixture.space.claim_is_gone("unused").await?;
    // The LIST for `used` was not newer than the one that released `unused`, so any release of
    // `used` would have happened by now.
    fixture.space.claim_is_held("used").await?;
    // The frozen watch does not report the deletion of the pod.
    fixture.space.delete_pod("user").await?;
    fixture.space.claim_is_gone("used").await?;
    drop(frozen);
    Ok(())
}

/// A LIST of pods that began before Volume Warden saw the deletion of a claim does not decide about
/// that claim. The LIST for `early` is answered before the pod of `late` is created, and its
/// response reaches Volume Warden afterwards.
#[tokio::test]
async fn a_list_older_than_the_deletion_does_not_decide() -> Result<()> {
    let fixture = FaultFixture::new("old-list").await?;
    let warden = fixture.start().await?;
    fixture.create_protected_claims(&["early", "late"]).await?;
    let _frozen = fixture
        .interposer
        .add(Rule::watch_of("pods").freeze_stream());
    let slow = fixture
        .interposer
        .add(Rule::list_of("pods").times(1).hold_response());
    fixture.space.delete_claim("early").await?;
    slow.held(1).await?;
    fixture.space.create_pod("user", "late", on_node()).await?;
    fixture.space.delete_claim("late").await?;
    eventually("both deletions are queued", async || {
        let queued = warden.queued("pvc-protection").await?;
        anyhow::Ok(queued >= 2)
    })
    .await?;
    slow.release();
    fixture.space.claim_is_gone("early").await?;
    fixture.space.claim_is_held("late").await
}

/// During an outage of the API server no claim is released. Afterwards the unused claim is
/// released, and the used one is held.
#[tokio::test]
async fn deletions_during_an_api_server_outage_are_handled_afterwards() -> Result<()> {
    let fixture = FaultFixture::new("away").await?;
    let _warden = fixture.start().await?;
    fixture.create_protected_claims(&["used", "unused"]).await?;
    fixture.space.create_running_pod("user", "used").await?;
    let no_reads = fixture.interposer.add(Rule::on("GET").cut());
    let writes = Rule::on("PATCH").path_contains("/persistentvolumeclaims/");
    let no_writes = fixture.interposer.add(writes.cut());
    fixture.space.delete_claim("used").await?;
    fixture.space.delete_claim("unused").await?;
    eventually("reads were retried", async || no_reads.taken() > 3).await?;
    ensure!(no_writes.taken() == 0, "a claim was written without a read");
    drop((no_reads, no_writes));
    fixture.space.claim_is_gone("unused").await?;
    fixture.space.claim_is_held("used").await?;
    fixture.space.delete_pod("user").await?;
    fixture.space.claim_is_gone("used").await
}

/// Volume Warden is killed at each of its writes. Its successors do the remaining writes, and no
/// others.
#[tokio::test]
async fn killed_between_any_two_writes_nothing_is_lost() -> Result<()> {
    let fixture = FaultFixture::new("killed").await?;
    let names = ["a", "b", "c", "kept"];
    for name in names {
        fixture.space.create_claim(name).await?;
    }
    // There are four finalizers to add and then three to remove. For each of these seven writes a
    // process is killed, and after each group one more process completes the group.
    for _ in 0..names.len() {
        kill_at_next_write(&fixture).await?;
    }
    let last = fixture
        .builder()
        .arg("--leader-elect-identity=killed")
        .start()
        .await?;
    for name in names {
        fixture.space.claim_is_protected(name).await?;
    }
    drop(last);
    fixture.space.create_running_pod("user", "kept").await?;
    for name in names {
        fixture.space.delete_claim(name).await?;
    }
    for _ in 0..names.len() - 1 {
        kill_at_next_write(&fixture).await?;
    }
    let _last = fixture
        .builder()
        .arg("--leader-elect-identity=killed")
        .start()
        .await?;
    for name in ["a", "b", "c"] {
        fixture.space.claim_is_gone(name).await?;
    }
    fixture.space.claim_is_held("kept").await
}

/// Starts Volume Warden, and kills it while a write is held. The API server may still receive that
/// write, so at a later call no write may be left.
async fn kill_at_next_write(fixture: &FaultFixture) -> Result<()> {
    let held = fixture.interposer.add(
        Rule::on("PATCH")
            .path_contains("/persistentvolumeclaims/")
            .hold(),
    );
    // All processes have the same identity, so none waits for the Lease of its predecessor to
    // expire.
    let warden = fixture
        .builder()
        .arg("--max-in-flight=1")
        .arg("--leader-elect-identity=killed")
        .start()
        .await?;
    eventually("a write is held, or no write is left", async || {
        anyhow::Ok(held.taken() > 0 || no_write_is_left(fixture).await?)
    })
    .await?;
    held.release();
    warden.process().kill()?;
    Ok(())
}

/// Whether all claims have their finalizer, and only the used one is still being deleted.
async fn no_write_is_left(fixture: &FaultFixture) -> Result<bool> {
    let claims = fixture.space.claims.list(&ListParams::default()).await?;
    Ok(claims.iter().all(|claim| {
        let wanted = claim.metadata.deletion_timestamp.is_none() || claim.name_any() == "kept";
        wanted && !claim.finalizers().is_empty()
    }))
}

/// A patch that removes the finalizer arrives after the claim was deleted and recreated. It must
/// not change the new claim.
#[tokio::test]
async fn a_late_removal_spares_the_next_claim_of_that_name() -> Result<()> {
    let fixture = FaultFixture::new("next-claim").await?;
    let _warden = fixture.start().await?;
    fixture.create_protected_claims(&["data"]).await?;
    // A patch that Volume Warden abandons and sends again also arrives in the end.
    let held = fixture.interposer.add(claim_write("data").postpone());
    fixture.space.delete_claim("data").await?;
    held.held(1).await?;
    fixture
        .space
        .patch_claim("data", json!({"metadata": {"finalizers": null}}))
        .await?;
    fixture.space.claim_is_gone("data").await?;
    let next = crate::support::claim(
        "data",
        json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}),
    )?;
    fixture
        .space
        .claims
        .create(&PostParams::default(), &next)
        .await?;
    let (mark, late) = (fixture.space.cluster.audit().mark()?, held.taken());
    held.release();
    // A removed finalizer would be added again at once, so only the audit log shows a removal.
    let answers = eventually("the late patches were answered", async || {
        let calls = fixture
            .space
            .cluster
            .audit()
            .since(mark)?
            .by_user_agent("volume-warden/")
            .writes();
        let own = calls
            .iter()
            .filter(|call| call.namespace == fixture.space.name && call.name == "data");
        anyhow::Ok(
            Some(own.map(|call| call.code).collect::<Vec<_>>()).filter(|codes| codes.len() >= late),
        )
    })
    .await?;
    ensure!(answers.iter().all(|code| *code == 422), "{answers:?}");
    Ok(())
}

/// Finished pods hold their claims by default. With `--finished-pods=release` they do not.
#[tokio::test]
async fn finished_pods_release_their_claims_with_the_option() -> Result<()> {
    let fixture = FaultFixture::new("finished").await?;
    let _warden = fixture
        .builder()
        .arg("--finished-pods=release")
        .start()
        .await?;
    fixture.create_protected_claims(&["data"]).await?;
    fixture.space.create_running_pod("user", "data").await?;
    fixture.space.delete_claim("data").await?;
    fixture.space.claim_is_held("data").await?;
    fixture
        .space
        .patch_pod_status("user", json!({"phase": "Succeeded"}))
        .await?;
    fixture.space.claim_is_gone("data").await
}
