//! Collections, which delete the namespaces that the storage has and Kubernetes does not.

use super::{
    reads_and_metrics::{
        all_runs, collection_ended, is_expected, live_list, metric, more_runs, runs, waiting,
    },
    support::{Fixture, GC_EACH_SECOND, NO_GC},
};
use anyhow::{Result, ensure};
use serde_json::json;
use volume_warden_controlplane::{Rule, eventually};
use volume_warden_storageos::{Endpoint, Fault};

/// NS-15, NS-18, NS-19, NS-24, NS-25: one collection deletes the orphans. The next one is an hour
/// later, so a namespace that is not empty is retried outside a collection.
#[tokio::test]
async fn orphans_are_deleted_at_once_or_once_they_are_empty() -> Result<()> {
    let fixture = Fixture::new("orphans").await?;
    let alive = fixture.create_in_both("alive").await?;
    let ids = ["a", "full", "z"].map(|name| fixture.create_in_storage(name));
    fixture.storage.fill(&fixture.full_name("full"));
    let names = ["default", "kube-anything", "nsgc-orphans-kept"];
    let protected = names.map(|name| fixture.storage.create(name));
    fixture.storage.list_also(json!({"id": "nameless"}));
    fixture.storage.list_also(json!({"name": "idless"}));
    let protect = "--gc-protect=default,kube-*,*-orphans-k*";
    let warden = fixture.warden().arg(protect).start().await?;
    fixture.is_removed("a").await?;
    fixture.is_removed("z").await?;
    waiting(&warden, "NotEmpty", 1).await?;
    fixture.storage.empty(&fixture.full_name("full"));
    fixture.is_removed("full").await?;
    fixture.reported("full", "NamespaceDeleted", 1).await?;
    let complete = collection_ended(&warden).await?;
    let ended = runs(&warden, "Done").await? + runs(&warden, "Incomplete").await?;
    ensure!(ended == 1, "{ended}");
    let gauge = "volume_warden_gc_namespaces{verdict=\"Protected\"}";
    ensure!(metric(&warden, gauge).await? == 2);
    let gauge = "volume_warden_gc_skipped_entries";
    ensure!(metric(&warden, gauge).await? == 2);

    let deletions = ids.map(|id| fixture.deletions_of(&id));
    let mut pairs = deletions.iter().zip([1, 2, 1]);
    let each = pairs.all(|(found, expected)| is_expected(*found, expected, complete));
    ensure!(each, "{deletions:?}");
    let all: usize = deletions.iter().sum();
    ensure!(fixture.deletions() == all, "{alive} {protected:?}");
    Ok(())
}

/// NS-17, NS-22: the next collection deletes an orphan that was created later, also after
/// collections for which the storage could not be listed.
#[tokio::test]
async fn the_next_collection_deletes_later_orphans() -> Result<()> {
    let fixture = Fixture::new("later").await?;
    fixture.create_in_both("alive").await?;
    let warden = fixture.warden().arg(GC_EACH_SECOND).start().await?;
    more_runs(&warden, "Done", 2).await?;
    let fault = Fault::error(500, "the list is away");
    fixture.storage.fault(Endpoint::List, fault, usize::MAX);
    let id = fixture.create_in_storage("orphan");
    more_runs(&warden, "BackendFailed", 2).await?;
    ensure!(fixture.deletions() == 0 && fixture.is_in_storage("orphan"));
    fixture.storage.clear_faults();
    fixture.is_removed("orphan").await?;
    more_runs(&warden, "Done", 1).await?;
    ensure!(fixture.deletions_of(&id) == 1 && fixture.deletions() == 1);
    Ok(())
}

/// The number of lists does not depend on the number of orphans.
#[tokio::test]
async fn a_collection_takes_one_list_of_the_storage_and_two_of_kubernetes() -> Result<()> {
    let fixture = Fixture::exclusive("calls").await?;
    let names: Vec<_> = (0..30).map(|n| format!("orphan{n}")).collect();
    for name in &names {
        fixture.create_in_storage(name);
    }
    let interposer = fixture.interposer().await?;
    let not_leading = fixture.prevent_leading(&interposer);
    let gets = interposer.add(Rule::on("GET").path_contains("/api/v1/namespaces/nsgc-calls-"));
    let warden = fixture.warden().kubeconfig(interposer.kubeconfig());
    let warden = warden.start().await?;
    let lists = interposer.add(live_list());
    drop(not_leading);
    let complete = collection_ended(&warden).await?;
    eventually("the orphans are deleted", async || {
        fixture.storage.names().is_empty()
    })
    .await?;
    ensure!(lists.taken() == 2, "{}", lists.taken());
    let calls = (fixture.lists(), gets.taken(), fixture.deletions());
    let each = is_expected(calls.0, 1, complete)
        && is_expected(calls.1, 30, complete)
        && is_expected(calls.2, 30, complete);
    ensure!(each, "{calls:?}");
    Ok(())
}

/// NS-25: the namespaces that would be deleted are reported, and nothing is deleted.
#[tokio::test]
async fn a_dry_run_deletes_nothing() -> Result<()> {
    let fixture = Fixture::new("dry").await?;
    fixture.create_in_storage("orphan");
    let warden = fixture.warden().arg("--dry-run").arg(GC_EACH_SECOND);
    let warden = warden.start().await?;
    fixture.create_in_both("shop").await?;
    fixture.delete_and_wait("shop").await?;
    more_runs(&warden, "Done", 2).await?;
    let gauge = "volume_warden_gc_namespaces{verdict=\"Orphan\"}";
    ensure!(metric(&warden, gauge).await? == 2);
    let log = warden.process().log();
    ensure!(log.contains("would act"), "{log}");
    ensure!(fixture.deletions() == 0 && fixture.storage.names().len() == 2);
    Ok(())
}

/// A collection that reaches the limit reports this, and the next one continues.
#[tokio::test]
async fn the_deletions_of_one_collection_are_limited() -> Result<()> {
    let fixture = Fixture::new("cap").await?;
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        fixture.create_in_storage(name);
    }
    let capped = fixture.warden().arg("--gc-max-deletions=2").start().await?;
    let complete = collection_ended(&capped).await?;
    eventually("two orphans are deleted", async || {
        fixture.storage.names().len() == 3
    })
    .await?;
    let deletions = fixture.deletions();
    ensure!(is_expected(deletions, 2, complete), "{deletions}");
    eventually("the limit is reported", async || {
        capped.process().log().contains("TooManyOrphans")
    })
    .await?;
    drop(capped);
    let arguments = [GC_EACH_SECOND, "--gc-max-deletions=2"];
    let next = fixture.warden().arg(arguments[0]).arg(arguments[1]);
    let next = next.start().await?;
    for name in names {
        fixture.is_removed(name).await?;
    }
    more_runs(&next, "Done", 1).await?;
    let complete = complete && runs(&next, "Incomplete").await? == 0;
    let deletions = fixture.deletions();
    ensure!(is_expected(deletions, 5, complete), "{deletions}");
    Ok(())
}

/// NS-16: there is no collection, not even the first.
#[tokio::test]
async fn without_an_interval_nothing_is_collected() -> Result<()> {
    let fixture = Fixture::exclusive("off").await?;
    fixture.create_in_storage("orphan");
    let warden = fixture.warden().arg(NO_GC).start().await?;
    fixture.leads("first").await?;
    fixture.settled().await?;
    ensure!(fixture.lists() == 1 && fixture.deletions() == 1 && fixture.is_in_storage("orphan"));
    ensure!(all_runs(&warden).await? == 0);
    Ok(())
}
