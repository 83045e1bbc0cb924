//! A claim changes between the decision of Volume Warden and its write.

use crate::pvc_provisioner::{
    fault_fixture::{FaultFixture, claim_write},
    support::{AWAITING_POD, awaiting},
};
use anyhow::{Result, ensure};
use serde_json::json;
use volume_warden_controlplane::eventually;

/// A DELETE request that arrives late deletes neither a claim from which a user has removed the
/// marker nor a new claim with the same name: the API server answers with a conflict.
#[tokio::test]
async fn a_late_deletion_deletes_no_changed_claim() -> Result<()> {
    let fixture = FaultFixture::new("late-deletion").await?;
    let (pod_space, space) = (&fixture.pod_space, &fixture.pod_space.space);
    let _warden = fixture.start_with_short_grace_period().await?;
    let names = ["unmarked", "replaced"];
    // The API server also receives requests that timed out and were retried.
    let held = names.map(|name| {
        let deletion = claim_write("DELETE", name);
        fixture.interposer.add(deletion.postpone())
    });
    for (name, held) in names.iter().zip(&held) {
        pod_space.create_claim(name, awaiting()).await?;
        held.held(1).await?;
    }
    space
        .patch_claim(
            "unmarked",
            json!({"metadata": {"annotations": {AWAITING_POD: null}}}),
        )
        .await?;
    space.delete_claim("replaced").await?;
    space.claim_is_gone("replaced").await?;
    pod_space.create_claim("replaced", json!({})).await?;
    let (audit, name) = (space.cluster.audit(), &space.name);
    let start = audit.mark()?;
    let postponed: usize = held.iter().map(|held| held.taken()).sum();
    drop(held);
    let codes = || {
        let calls = audit.since(start)?.by_user_agent("volume-warden/");
        let deletions = calls
            .iter()
            .filter(|call| call.verb == "delete" && call.namespace == *name);
        anyhow::Ok(Vec::from_iter(deletions.map(|call| call.code)))
    };
    eventually(
        "the API server has answered the late DELETE requests",
        async || anyhow::Ok(codes()?.len() >= postponed),
    )
    .await?;
    pod_space.wait_until_processed().await?;
    for name in names {
        ensure!(
            pod_space
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
