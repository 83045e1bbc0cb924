//! A drain removes nothing if a read fails or a list is wrongly empty. A dry run only reads.

use super::support::{CLAIM_FINALIZER, DrainFixture, FOREIGN, VOLUME_FINALIZER};
use anyhow::{Result, ensure};
use serde_json::json;
use volume_warden_controlplane::Rule;

#[tokio::test]
async fn a_dry_run_reports_everything_and_writes_nothing() -> Result<()> {
    let drain_fixture = DrainFixture::new("dry").await?;
    let space = &drain_fixture.space;
    let both = json!({"metadata": {"finalizers": [FOREIGN, CLAIM_FINALIZER], "annotations": {"volume-warden.dev/awaiting-pod": "then"}}});
    let before = drain_fixture.create_claim("data", both).await?;
    let volume = drain_fixture.create_volume(json!({})).await?;
    let drained = drain_fixture.drain(&["--in-tree=off", "--dry-run"]).await?;
    assert_eq!(
        (drained.code, &*drained.stderr),
        (Some(0), ""),
        "{drained:?}"
    );
    drained.prints(&[
        &format!("claim {}/data: would remove", space.name),
        CLAIM_FINALIZER,
        "awaiting-pod",
    ])?;
    drained.prints(&[&format!("volume {volume}: would remove"), VOLUME_FINALIZER])?;
    drained
        .prints(&["webhook configuration volume-warden-pv-protection-guard: would be deleted"])?;
    let calls = drain_fixture.calls()?;
    ensure!(
        !calls.is_empty() && calls.writes().is_empty(),
        "{:?}",
        calls.writes()
    );
    let after = space.claims.get("data").await?.metadata;
    assert_eq!(after.resource_version, before.resource_version);
    drain_fixture
        .drain(&["--in-tree=off"])
        .await?
        .left_nothing()?;
    assert_eq!(space.finalizers("data").await?, [FOREIGN]);
    space
        .patch_claim("data", json!({"metadata": {"finalizers": null}}))
        .await
}

#[tokio::test]
async fn nothing_is_removed_after_a_failed_or_empty_read() -> Result<()> {
    let drain_fixture = DrainFixture::new("unread").await?;
    let space = &drain_fixture.space;
    drain_fixture.create_claim("data", json!({})).await?;
    for (resource, path) in [
        ("claims", "/persistentvolumeclaims"),
        ("volumes", "/persistentvolumes"),
        ("pods", "/pods"),
        ("sets", "/statefulsets"),
        ("Leases", "/leases"),
        ("bindings", "/clusterrolebindings"),
    ] {
        let fault = Rule::on("GET")
            .path_contains(path)
            .respond(500, "InternalError", "no answer");
        let fault = drain_fixture.interposer.add(fault);
        let failed = drain_fixture.drain(&["--in-tree=off"]).await?;
        failed
            .failed("without further removals")
            .or_else(|_| failed.failed("nothing is removed"))
            .or_else(|_| failed.failed("was not acquired"))?;
        ensure!(fault.taken() > 0, "{resource} are not read");
    }
    let volume_name = format!("pv-{}", space.name);
    let volumes = json!({"kind": "PersistentVolumeList", "apiVersion": "v1", "metadata": {}, "items": [{
        "metadata": {"name": volume_name, "uid": "1"}, "status": {"phase": "Bound"},
        "spec": {"claimRef": {"namespace": space.name, "name": "data", "uid": "1"}},
    }]});
    let claims = json!({"kind": "PersistentVolumeClaimList", "apiVersion": "v1", "metadata": {}, "items": []});
    let lists = [
        ("/persistentvolumes", volumes),
        ("/persistentvolumeclaims", claims),
    ];
    let rules = lists.map(|(path, list)| {
        drain_fixture
            .interposer
            .add(Rule::on("GET").path_contains(path).answer(list))
    });
    let failed = drain_fixture.drain(&["--in-tree=off"]).await?;
    failed.failed("the list of claims is empty, but the volume")?;
    drop(rules);
    drain_fixture
        .drain(&["--in-tree=off", "--namespace=nowhere"])
        .await?
        .failed("there is no namespace nowhere")?;
    assert_eq!(drain_fixture.writes()?, [""; 0]);
    assert_eq!(space.finalizers("data").await?, [CLAIM_FINALIZER]);
    drain_fixture
        .drain(&["--in-tree=off"])
        .await?
        .left_nothing()
}
