//! An object changes between the decision and the write.

use crate::pvc_provisioner::{
    fault_fixture::{FaultFixture, claim_write},
    support::{MARK, awaiting},
};
use anyhow::{Result, ensure};
use serde_json::json;
use volume_warden_controlplane::eventually;

/// A user removes the mark, or another claim has the name by now: a late deletion spares both.
#[tokio::test]
async fn a_late_deletion_spares_what_changed_meanwhile() -> Result<()> {
    let fixture = FaultFixture::new("late-deletion").await?;
    let (askers, space) = (&fixture.askers, &fixture.askers.space);
    let _warden = fixture.start_impatient().await?;
    let names = ["unmarked", "replaced"];
    // Requests that time out and are retried also arrive eventually.
    let held = names.map(|name| {
        let deletion = claim_write("DELETE", name);
        fixture.interposer.add(deletion.postpone())
    });
    for (name, held) in names.iter().zip(&held) {
        askers.create_claim(name, awaiting()).await?;
        held.held(1).await?;
    }
    space
        .patch_claim(
            "unmarked",
            json!({"metadata": {"annotations": {MARK: null}}}),
        )
        .await?;
    space.delete_claim("replaced").await?;
    space.claim_is_gone("replaced").await?;
    askers.create_claim("replaced", json!({})).await?;
    let (audit, name) = (space.cluster.audit(), &space.name);
    let mark = audit.mark()?;
    let late: usize = held.iter().map(|held| held.taken()).sum();
    drop(held);
    let codes = || {
        let calls = audit.since(mark)?.by_user_agent("volume-warden/");
        let deletions = calls
            .iter()
            .filter(|call| call.verb == "delete" && call.namespace == *name);
        anyhow::Ok(Vec::from_iter(deletions.map(|call| call.code)))
    };
    eventually("the late deletions were answered", async || {
        anyhow::Ok(codes()?.len() >= late)
    })
    .await?;
    askers.settled().await?;
    for name in names {
        ensure!(
            askers
                .claim(name)
                .await?
                .metadata
                .deletion_timestamp
                .is_none(),
            "{name}"
        );
    }
    let codes = codes()?;
    ensure!(codes.iter().all(|code| *code == 409), "{codes:?}");
    Ok(())
}
