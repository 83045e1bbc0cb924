//! The component as a part of the whole program: off, beside others, and kept out by its storage.

use super::{
    asking::{metric, waiting},
    support::{NO_GC, Scene, component},
};
use crate::support::bare;
use anyhow::{Result, ensure};
use std::{fs, time::Duration};
use volume_warden_controlplane::{eventually, eventually_within};
use volume_warden_storageos::{Endpoint, FOR_EVER, Fault, PASSWORD, USER};

/// For what is tried again after pauses that double, and may have doubled often on a busy machine.
const LONG: Duration = Duration::from_secs(600);

/// Without a storage, and where it may look at one namespace only: it says so once, and asks for nothing.
#[tokio::test]
async fn without_anything_to_do_it_says_so_and_watches_nothing() -> Result<()> {
    let cluster = bare().await?;
    let scene = Scene::new("idle").await?;
    let one = scene.warden().arg("--namespace=default");
    let none = component(&cluster, "nsgc-none", "first");
    // Without --namespace, every component watches which namespaces have opted out.
    for (warden, why, watches) in [
        (none, "--storage-backend is not set", true),
        (
            one,
            "--namespace is set; namespace-gc handles whole clusters",
            false,
        ),
    ] {
        let warden = warden.start().await?;
        ensure!(warden.ready().await);
        let log = warden.process().log();
        let said = log.lines().filter(|line| line.contains("inactive"));
        let said: Vec<_> = said.collect();
        ensure!(said.len() == 1 && said[0].contains(why), "{log}");
        let lists = r#"volume_warden_feed_lists_total{resource="namespaces"}"#;
        ensure!(watches || metric(&warden, lists).await? == 0);
    }
    ensure!(scene.storage.requests().is_empty());
    Ok(())
}

/// A storage that is down must not take webhooks down.
#[tokio::test]
async fn it_does_not_hold_back_the_webhooks_of_others() -> Result<()> {
    // Alone there, because it manages the claims of all.
    let scene = Scene::quiet("beside").await?;
    let storage = &scene.storage;
    storage.fault(Endpoint::Login, Fault::CutBefore, FOR_EVER);
    let warden = scene
        .warden()
        .arg("--components=pvc-protection")
        .start()
        .await?;
    ensure!(warden.ready().await);
    eventually("it tries to log in", async || {
        storage.calls(Endpoint::Login) >= 1
    })
    .await
}

/// NS-08, NS-09, NS-27, NS-30: whatever keeps it out, it lives on, does not storm, says what is
/// wrong, and goes on when it is let in.
#[tokio::test]
async fn kept_out_it_waits_without_a_storm() -> Result<()> {
    let scene = Scene::quiet("kept-out").await?;
    let (secrets, storage) = (scene.secrets(), &scene.storage);
    fs::remove_file(secrets.join("password"))?;
    fs::remove_file(secrets.join("username"))?;
    let warden = scene
        .warden()
        .arg(NO_GC)
        .arg("--storageos-retry-interval=1s");
    // Ready, because it has webhooks to serve: it is to be asked meanwhile.
    let warden = warden.arg("--components=pvc-protection").start().await?;
    scene.leads("first").await?;
    let id = scene.create_in_both("shop").await?;
    scene.delete_wholly("shop").await?;
    waiting(&warden, "Unauthorized", 1).await?;
    ensure!(storage.calls(Endpoint::Login) == 0, "with what?");

    storage.fault(Endpoint::List, Fault::error(401, "log in first"), FOR_EVER);
    fs::write(secrets.join("username"), format!("{USER}\n"))?;
    fs::write(secrets.join("password"), format!("{PASSWORD}\n"))?;
    eventually_within(LONG, "it logs in, and is refused", async || {
        storage.calls(Endpoint::List) >= 4
    })
    .await?;
    // Each refused list may have had a login of its own, and no more.
    let (logins, lists) = (
        storage.calls(Endpoint::Login),
        storage.calls(Endpoint::List),
    );
    ensure!(logins <= lists, "{logins} logins for {lists} lists");

    storage.heal();
    storage.fault(Endpoint::List, Fault::error(403, "not for you"), 1);
    eventually_within(LONG, "it is removed", async || !scene.is_stored("shop")).await?;
    ensure!(scene.deletions_of(&id) == 1 && warden.process().is_running());
    scene.reported("shop", "NamespaceDeleteFailed", 1).await?;
    let log = warden.process().log();
    ensure!(
        log.contains("Unauthorized") && !log.contains(PASSWORD),
        "{log}"
    );
    Ok(())
}
