//! Faults on the way between one Volume Warden and the API server. Rows PVC-* marked F. Each
//! scenario has a Volume Warden of its own, for its own namespace, behind an interposer that holds,
//! refuses or cuts single requests.

use crate::support::{BINARY, Space, bare, on_node};
use anyhow::{Result, ensure};
use kube::{
    ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::json;
use volume_warden_controlplane::{Interposer, Rule, Warden, WardenBuilder, eventually};

/// A namespace and what lies between its Volume Warden and the API server.
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

    /// Requests so far, by method and a part of the path; LISTs without their later pages and
    /// without watches.
    fn count(&self, method: &str, part: &str) -> usize {
        let counts = |query: &str| !query.contains("watch=true") && !query.contains("continue=");
        self.interposer
            .requests()
            .iter()
            .filter(|seen| seen.method == method && seen.path.contains(part) && counts(&seen.query))
            .count()
    }

    /// Claims with their finalizer.
    async fn claims(&self, names: &[&str]) -> Result<()> {
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

/// PVC-03: refused twice, written the third time; and an Event reports it.
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
    eventually("an event says so", async || {
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

/// PVC-12, PVC-13: the watch is late, so the cache knows no user; the live list does.
#[tokio::test]
async fn a_pod_that_the_watch_has_not_reported_holds_its_claim() -> Result<()> {
    let fixture = FaultFixture::new("late-watch").await?;
    let _warden = fixture.start().await?;
    fixture.claims(&["used", "unused"]).await?;
    let frozen = fixture
        .interposer
        .add(Rule::watch_of("pods").freeze_stream());
    fixture.space.create_pod("user", "used", on_node()).await?;
    fixture.space.delete_claim("used").await?;
    fixture.space.delete_claim("unused").await?;
    fixture.space.claim_is_gone("unused").await?;
    // Its own LIST was not younger, so any release would have happened by now.
    fixture.space.claim_is_held("used").await?;
    // The watch will not report its deletion.
    fixture.space.delete_pod("user").await?;
    fixture.space.claim_is_gone("used").await?;
    drop(frozen);
    Ok(())
}

/// No LIST older than the sight of a claim's deletion may decide about it. The LIST that `early`
/// caused is answered before `late` gets its pod, and reaches Volume Warden only afterwards.
#[tokio::test]
async fn a_list_older_than_the_deletion_does_not_decide() -> Result<()> {
    let fixture = FaultFixture::new("old-list").await?;
    let warden = fixture.start().await?;
    fixture.claims(&["early", "late"]).await?;
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
    eventually("the deletion is known", async || {
        let queued = warden.queued("pvc-protection").await?;
        anyhow::Ok(queued >= 2)
    })
    .await?;
    slow.release();
    fixture.space.claim_is_gone("early").await?;
    fixture.space.claim_is_held("late").await
}

/// An API server that is away for a while: nothing is let go meanwhile, and everything afterwards.
#[tokio::test]
async fn an_api_server_that_was_away_is_caught_up_with() -> Result<()> {
    let fixture = FaultFixture::new("away").await?;
    let _warden = fixture.start().await?;
    fixture.claims(&["used", "unused"]).await?;
    fixture.space.create_running_pod("user", "used").await?;
    let away = fixture.interposer.add(Rule::on("GET").cut());
    let no_writes = fixture.interposer.add(Rule::on("PATCH").cut());
    fixture.space.delete_claim("used").await?;
    fixture.space.delete_claim("unused").await?;
    eventually("it tried to come back", async || away.taken() > 3).await?;
    ensure!(fixture.space.claims.get_opt("unused").await?.is_some());
    drop((away, no_writes));
    fixture.space.claim_is_gone("unused").await?;
    fixture.space.claim_is_held("used").await?;
    fixture.space.delete_pod("user").await?;
    fixture.space.claim_is_gone("used").await
}

/// Killed between any two writes, a successor finds everything there is to do, and does nothing
/// else.
#[tokio::test]
async fn killed_between_any_two_writes_nothing_is_lost() -> Result<()> {
    let fixture = FaultFixture::new("killed").await?;
    let names = ["a", "b", "c", "kept"];
    for name in names {
        fixture.space.create_claim(name).await?;
    }
    // Four finalizers to add, then three to remove: seven writes, a kill at each that is left by
    // then, and one process that ends it.
    for _ in 0..names.len() {
        die_at_next_write(&fixture).await?;
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
        die_at_next_write(&fixture).await?;
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

/// Kills Volume Warden while a write is on the way, which may still arrive: the next time there may
/// be none left.
async fn die_at_next_write(fixture: &FaultFixture) -> Result<()> {
    let held = fixture.interposer.add(
        Rule::on("PATCH")
            .path_contains("/persistentvolumeclaims/")
            .hold(),
    );
    // Of one identity, so that no successor has to wait for its predecessor's Lease to expire.
    let warden = fixture
        .builder()
        .arg("--max-in-flight=1")
        .arg("--leader-elect-identity=killed")
        .start()
        .await?;
    eventually("a write is on the way, or none is left", async || {
        anyhow::Ok(held.taken() > 0 || nothing_is_left_to_write(fixture).await?)
    })
    .await?;
    held.release();
    warden.process().kill()?;
    Ok(())
}

/// All claims have their finalizer, and of those that are being deleted only the used one is there.
async fn nothing_is_left_to_write(fixture: &FaultFixture) -> Result<bool> {
    let claims = fixture.space.claims.list(&ListParams::default()).await?;
    Ok(claims.iter().all(|claim| {
        let wanted = claim.metadata.deletion_timestamp.is_none() || claim.name_any() == "kept";
        wanted && !claim.finalizers().is_empty()
    }))
}

/// A claim of the same name that came afterwards is another claim: a late removal must not touch
/// it.
#[tokio::test]
async fn a_late_removal_spares_the_next_claim_of_that_name() -> Result<()> {
    let fixture = FaultFixture::new("next-claim").await?;
    let _warden = fixture.start().await?;
    fixture.claims(&["data"]).await?;
    // Also what Volume Warden gives up meanwhile, to write it again, arrives in the end.
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
    // It would be put back at once, so the claim does not show it; the audit log does.
    let answers = eventually("the late removal was answered", async || {
        let calls = fixture
            .space
            .cluster
            .audit()
            .since(mark)?
            .by_user_agent("volume-warden/")
            .writes();
        let counts = calls
            .iter()
            .filter(|call| call.namespace == fixture.space.name && call.name == "data");
        anyhow::Ok(
            Some(counts.map(|call| call.code).collect::<Vec<_>>())
                .filter(|codes| codes.len() >= late),
        )
    })
    .await?;
    ensure!(answers.iter().all(|code| *code == 422), "{answers:?}");
    Ok(())
}

/// Finished pods hold their claims by default.
#[tokio::test]
async fn finished_pods_let_go_when_reported_to() -> Result<()> {
    let fixture = FaultFixture::new("finished").await?;
    let _warden = fixture
        .builder()
        .arg("--finished-pods=release")
        .start()
        .await?;
    fixture.claims(&["data"]).await?;
    fixture.space.create_running_pod("user", "data").await?;
    fixture.space.delete_claim("data").await?;
    fixture.space.claim_is_held("data").await?;
    fixture
        .space
        .patch_pod_status("user", json!({"phase": "Succeeded"}))
        .await?;
    fixture.space.claim_is_gone("data").await
}
