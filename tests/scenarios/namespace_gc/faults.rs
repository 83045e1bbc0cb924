//! The storage does not do as it should.

use super::{
    asking::waiting,
    support::{NO_GC, Scene},
};
use anyhow::{Result, bail, ensure};
use std::pin::pin;
use volume_warden_controlplane::eventually;
use volume_warden_storageos::{Endpoint, FOR_EVER, Fault, PASSWORD};

/// NS-07, NS-36: the password was changed, and so were the files of the Secret.
#[tokio::test]
async fn new_credentials_are_read_when_the_old_ones_do_not_do() -> Result<()> {
    let scene = Scene::new("rotated").await?;
    let _warden = scene.warden().arg(NO_GC).start().await?;
    scene.leads("first").await?;
    ensure!(scene.storage.calls(Endpoint::Login) == 1);
    let id = scene.create_in_both("shop").await?;
    scene.storage.set_password("second-secret");
    scene.write_secrets("second-secret")?;
    scene.storage.end_sessions();
    scene.delete_wholly("shop").await?;
    scene.is_removed("shop").await?;
    ensure!(scene.deletions_of(&id) == 1);
    ensure!(scene.storage.calls(Endpoint::Login) == 2);
    Ok(())
}

/// NS-10, NS-12: the process keeps running, and retries. A deletion whose answer was lost is not
/// sent again.
#[tokio::test]
async fn a_deletion_that_is_cut_off_is_tried_again() -> Result<()> {
    let scene = Scene::new("cut").await?;
    let warden = scene.warden().arg(NO_GC).start().await?;
    scene.leads("first").await?;
    let faults = [
        Fault::CutBefore,
        Fault::error(503, "the store is away"),
        Fault::Answer(500, "<html>".repeat(1000)),
    ];
    for fault in faults {
        scene.storage.fault(Endpoint::Delete, fault, 1);
    }
    let id = scene.create_in_both("shop").await?;
    scene.delete_wholly("shop").await?;
    waiting(&warden, "Unavailable", 1).await?;
    scene.is_removed("shop").await?;
    ensure!(scene.deletions_of(&id) == 4);
    scene.reported("shop", "NamespaceDeleteFailed", 1).await?;

    scene.storage.fault(Endpoint::Delete, Fault::CutAfter, 1);
    let id = scene.create_in_both("yard").await?;
    scene.delete_wholly("yard").await?;
    scene.is_removed("yard").await?;
    scene.reported("yard", "NamespaceDeleteFailed", 1).await?;
    waiting(&warden, "Unavailable", 0).await?;
    ensure!(scene.deletions_of(&id) == 1);
    ensure!(warden.process().is_running() && warden.ready().await);
    Ok(())
}

/// NS-26: the storage first does not answer, then rejects the credentials. The process retries, and
/// is not ready before its login succeeds.
#[tokio::test]
async fn it_waits_for_the_storage_and_for_its_credentials() -> Result<()> {
    let scene = Scene::new("fixture").await?;
    scene.write_secrets("not-yet-known")?;
    let storage = &scene.storage;
    storage.fault(Endpoint::Login, Fault::CutBefore, FOR_EVER);
    let warden = scene.warden().arg("--storageos-retry-interval=1s");
    let id = scene.store("orphan");
    let mut starting = pin!(warden.start());
    for wanted in [3, 6] {
        let logins = async || storage.calls(Endpoint::Login) >= wanted;
        tokio::select! {
            started = &mut starting => bail!("it was ready, or ended: {started:?}"),
            tried = eventually("it tries to log in", logins) => tried?,
        }
        storage.heal();
    }
    ensure!(scene.lists() == 0);
    scene.write_secrets(PASSWORD)?;
    let warden = starting.await?;
    scene.is_removed("orphan").await?;
    ensure!(scene.deletions_of(&id) == 1 && warden.ready().await);
    Ok(())
}

/// NS-34: a call that is never answered does not delay the shutdown.
#[tokio::test]
async fn it_ends_when_asked_though_a_call_is_under_way() -> Result<()> {
    let scene = Scene::new("asked").await?;
    let warden = scene.warden().arg(NO_GC).start().await?;
    scene.leads("first").await?;
    let id = scene.create_in_both("shop").await?;
    let storage = &scene.storage;
    storage.fault(Endpoint::Delete, Fault::Silence, FOR_EVER);
    scene.delete_wholly("shop").await?;
    eventually("it deletes", async || scene.deletions_of(&id) == 1).await?;
    let status = warden.stop().await?;
    ensure!(status.success(), "{status}");
    ensure!(scene.holder().await?.is_empty());
    Ok(())
}
