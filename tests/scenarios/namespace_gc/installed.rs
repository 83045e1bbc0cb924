//! The component as a part of the whole program: inactive, beside other components, and without
//! access to its storage.

use super::{
    reads_and_metrics::{metric, waiting},
    support::{Fixture, NO_GC, component, leads},
};
use crate::support::bare;
use anyhow::{Result, ensure};
use std::{fs, time::Duration};
use volume_warden_controlplane::{eventually, eventually_within};
use volume_warden_storageos::{Endpoint, FOR_EVER, Fault, PASSWORD, USER};

/// For actions that are retried at doubling intervals, which may be long on a busy machine.
const LONG_TIMEOUT: Duration = Duration::from_secs(600);

/// Without a storage backend, and with `--namespace`, the component logs once that it is inactive,
/// and sends no request to the storage.
#[tokio::test]
async fn an_inactive_component_logs_it_once_and_reads_nothing() -> Result<()> {
    let cluster = bare().await?;
    let fixture = Fixture::new("idle").await?;
    let one_namespace = fixture.warden().arg("--namespace=default");
    let no_backend = component(&cluster, "nsgc-none", "first");
    // Without --namespace, every component watches which namespaces have opted out.
    for (warden, lease, reason, watches) in [
        (
            no_backend,
            "nsgc-none",
            "--storage-backend is not set",
            true,
        ),
        (
            one_namespace,
            &*fixture.name,
            "--namespace is set; namespace-gc handles whole clusters",
            false,
        ),
    ] {
        let warden = warden.start().await?;
        ensure!(warden.ready().await?);
        let log = warden.process().log();
        let messages = log.lines().filter(|line| line.contains("inactive"));
        let messages: Vec<_> = messages.collect();
        ensure!(messages.len() == 1 && messages[0].contains(reason), "{log}");
        let lists = r#"volume_warden_watch_lists_total{resource="namespaces"}"#;
        ensure!(watches || metric(&warden, lists).await? == 0);
        // A collection would begin now.
        leads(&cluster, lease, "first").await?;
        let requests = fixture.storage.requests();
        ensure!(requests.is_empty(), "{requests:?}");
    }
    Ok(())
}

/// The webhooks of another component are served although the storage is down.
#[tokio::test]
async fn a_storage_that_is_down_does_not_block_other_webhooks() -> Result<()> {
    // On an exclusive cluster, because pvc-protection handles the claims of all namespaces.
    let fixture = Fixture::exclusive("beside").await?;
    let storage = &fixture.storage;
    storage.fault(Endpoint::Login, Fault::CutBefore, FOR_EVER);
    let warden = fixture
        .warden()
        .arg("--components=pvc-protection")
        .start()
        .await?;
    ensure!(warden.ready().await?);
    eventually("Volume Warden tries to log in", async || {
        storage.calls(Endpoint::Login) >= 1
    })
    .await
}

/// NS-08, NS-09, NS-27, NS-30: while Volume Warden has no credentials, or they are refused, it
/// keeps running, limits its logins and reports the cause. It continues once it has access.
#[tokio::test]
async fn without_access_to_the_storage_logins_are_limited() -> Result<()> {
    let fixture = Fixture::exclusive("kept-out").await?;
    let (secrets, storage) = (fixture.secrets(), &fixture.storage);
    fs::remove_file(secrets.join("password"))?;
    fs::remove_file(secrets.join("username"))?;
    let warden = fixture
        .warden()
        .arg(NO_GC)
        .arg("--storageos-retry-interval=1s");
    // With the webhooks of pvc-protection, Volume Warden is ready without access to the storage.
    let warden = warden.arg("--components=pvc-protection").start().await?;
    fixture.leads("first").await?;
    let id = fixture.create_in_both("shop").await?;
    fixture.delete_and_wait("shop").await?;
    waiting(&warden, "Unauthorized", 1).await?;
    ensure!(
        storage.calls(Endpoint::Login) == 0,
        "Volume Warden logs in without credentials"
    );

    storage.fault(Endpoint::List, Fault::error(401, "log in first"), FOR_EVER);
    fs::write(secrets.join("username"), format!("{USER}\n"))?;
    fs::write(secrets.join("password"), format!("{PASSWORD}\n"))?;
    eventually_within(
        LONG_TIMEOUT,
        "Volume Warden logs in, and its LISTs are refused",
        async || storage.calls(Endpoint::List) >= 4,
    )
    .await?;
    // Each refused LIST may have caused one login.
    let (logins, lists) = (
        storage.calls(Endpoint::Login),
        storage.calls(Endpoint::List),
    );
    ensure!(logins <= lists, "{logins} logins for {lists} lists");

    storage.clear_faults();
    storage.fault(Endpoint::List, Fault::error(403, "not for you"), 1);
    eventually_within(
        LONG_TIMEOUT,
        "the namespace is deleted from the storage",
        async || !fixture.is_in_storage("shop"),
    )
    .await?;
    ensure!(fixture.deletions_of(&id) == 1 && warden.process().is_running());
    fixture.reported("shop", "NamespaceDeleteFailed", 1).await?;
    let log = warden.process().log();
    ensure!(
        log.contains("Unauthorized") && !log.contains(PASSWORD),
        "{log}"
    );
    Ok(())
}
