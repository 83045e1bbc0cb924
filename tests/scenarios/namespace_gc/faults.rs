//! Faults of the storage.

use super::{
    reads_and_metrics::waiting,
    support::{Fixture, NO_GC},
};
use anyhow::{Result, bail, ensure};
use std::pin::pin;
use volume_warden_controlplane::eventually;
use volume_warden_storageos::{Endpoint, FOR_EVER, Fault, PASSWORD};

/// NS-07, NS-36: the password is changed in the storage and in the files of the Secret.
#[tokio::test]
async fn new_credentials_are_read_when_the_old_ones_are_rejected() -> Result<()> {
    let fixture = Fixture::new("rotated").await?;
    let _warden = fixture.warden().arg(NO_GC).start().await?;
    fixture.leads("first").await?;
    ensure!(fixture.storage.calls(Endpoint::Login) == 1);
    let id = fixture.create_in_both("shop").await?;
    fixture.storage.set_password("second-secret");
    fixture.write_secrets("second-secret")?;
    fixture.storage.end_sessions();
    fixture.delete_and_wait("shop").await?;
    fixture.is_removed("shop").await?;
    ensure!(fixture.deletions_of(&id) == 1);
    ensure!(fixture.storage.calls(Endpoint::Login) == 2);
    Ok(())
}

/// NS-10, NS-12: the process keeps running, and retries. A deletion whose answer was lost is not
/// sent again.
#[tokio::test]
async fn a_failed_deletion_is_retried() -> Result<()> {
    let fixture = Fixture::new("cut").await?;
    let warden = fixture.warden().arg(NO_GC).start().await?;
    fixture.leads("first").await?;
    let faults = [
        Fault::CutBefore,
        Fault::error(503, "the store is away"),
        Fault::Answer(500, "<html>".repeat(1000)),
    ];
    for fault in faults {
        fixture.storage.fault(Endpoint::Delete, fault, 1);
    }
    let id = fixture.create_in_both("shop").await?;
    fixture.delete_and_wait("shop").await?;
    waiting(&warden, "Unavailable", 1).await?;
    fixture.is_removed("shop").await?;
    ensure!(fixture.deletions_of(&id) == 4);
    fixture.reported("shop", "NamespaceDeleteFailed", 1).await?;

    fixture.storage.fault(Endpoint::Delete, Fault::CutAfter, 1);
    let id = fixture.create_in_both("yard").await?;
    fixture.delete_and_wait("yard").await?;
    fixture.is_removed("yard").await?;
    fixture.reported("yard", "NamespaceDeleteFailed", 1).await?;
    waiting(&warden, "Unavailable", 0).await?;
    ensure!(fixture.deletions_of(&id) == 1);
    ensure!(warden.process().is_running() && warden.ready().await?);
    Ok(())
}

/// NS-26: the storage first does not answer, then rejects the credentials. The process retries, and
/// is not ready before its login succeeds.
#[tokio::test]
async fn readiness_waits_for_the_storage_and_valid_credentials() -> Result<()> {
    let fixture = Fixture::new("fixture").await?;
    fixture.write_secrets("not-yet-known")?;
    let storage = &fixture.storage;
    storage.fault(Endpoint::Login, Fault::CutBefore, FOR_EVER);
    let warden = fixture.warden().arg("--storageos-retry-interval=1s");
    let id = fixture.create_in_storage("orphan");
    let mut starting = pin!(warden.start());
    for wanted in [3, 6] {
        let logins = async || storage.calls(Endpoint::Login) >= wanted;
        tokio::select! {
            started = &mut starting => bail!("Volume Warden was ready, or has exited: {started:?}"),
            tried = eventually("Volume Warden tries to log in", logins) => tried?,
        }
        storage.clear_faults();
    }
    ensure!(fixture.lists() == 0);
    fixture.write_secrets(PASSWORD)?;
    let warden = starting.await?;
    fixture.is_removed("orphan").await?;
    ensure!(fixture.deletions_of(&id) == 1 && warden.ready().await?);
    Ok(())
}

/// NS-34: a call that is never answered does not delay the shutdown.
#[tokio::test]
async fn an_unanswered_call_does_not_delay_the_shutdown() -> Result<()> {
    let fixture = Fixture::new("asked").await?;
    let warden = fixture.warden().arg(NO_GC).start().await?;
    fixture.leads("first").await?;
    let id = fixture.create_in_both("shop").await?;
    let storage = &fixture.storage;
    storage.fault(Endpoint::Delete, Fault::Silence, FOR_EVER);
    fixture.delete_and_wait("shop").await?;
    eventually("the deletion is requested", async || {
        fixture.deletions_of(&id) == 1
    })
    .await?;
    let status = warden.stop().await?;
    ensure!(status.success(), "{status}");
    ensure!(fixture.holder().await?.is_empty());
    Ok(())
}
