//! What the storage has and Kubernetes does not.

use super::{
    asking::{all_runs, collected, done_times, live_list, metric, more_runs, runs, waiting},
    support::{NO_GC, OFTEN, Scene},
};
use anyhow::{Result, ensure};
use serde_json::json;
use volume_warden_controlplane::{Rule, eventually};
use volume_warden_storageos::{Endpoint, Fault};

/// NS-15, NS-18, NS-19, NS-24, NS-25: one collection, and none for an hour after it.
#[tokio::test]
async fn orphans_go_at_once_and_one_that_is_full_when_it_is_empty() -> Result<()> {
    let scene = Scene::new("orphans").await?;
    let alive = scene.create_in_both("alive").await?;
    let ids = ["a", "full", "z"].map(|name| scene.store(name));
    scene.storage.fill(&scene.of("full"));
    let names = ["default", "kube-anything", "nsgc-orphans-kept"];
    let protected = names.map(|name| scene.storage.create(name));
    scene.storage.list_also(json!({"id": "nameless"}));
    scene.storage.list_also(json!({"name": "idless"}));
    let protect = "--gc-protect=default,kube-*,*-orphans-k*";
    let warden = scene.warden().arg(protect).start().await?;
    scene.is_removed("a").await?;
    scene.is_removed("z").await?;
    waiting(&warden, "NotEmpty", 1).await?;
    scene.storage.empty(&scene.of("full"));
    scene.is_removed("full").await?;
    scene.reported("full", "NamespaceDeleted", 1).await?;
    let whole = collected(&warden).await?;
    let ended = runs(&warden, "Done").await? + runs(&warden, "Incomplete").await?;
    ensure!(ended == 1, "{ended}");
    let gauge = "volume_warden_gc_namespaces{verdict=\"Protected\"}";
    ensure!(metric(&warden, gauge).await? == 2);
    let gauge = "volume_warden_gc_skipped_entries";
    ensure!(metric(&warden, gauge).await? == 2);

    let deletions = ids.map(|id| scene.deletions_of(&id));
    let mut least = deletions.iter().zip([1, 2, 1]);
    let each = least.all(|(found, least)| done_times(*found, least, whole));
    ensure!(each, "{deletions:?}");
    let all: usize = deletions.iter().sum();
    ensure!(scene.deletions() == all, "{alive} {protected:?}");
    Ok(())
}

/// NS-17, NS-22: the next one finds what came later, also after one for which the storage could not
/// be listed.
#[tokio::test]
async fn the_next_collection_finds_what_came_later() -> Result<()> {
    let scene = Scene::new("later").await?;
    scene.create_in_both("alive").await?;
    let warden = scene.warden().arg(OFTEN).start().await?;
    more_runs(&warden, "Done", 2).await?;
    let fault = Fault::error(500, "the list is away");
    scene.storage.fault(Endpoint::List, fault, usize::MAX);
    let id = scene.store("orphan");
    more_runs(&warden, "BackendFailed", 2).await?;
    ensure!(scene.deletions() == 0 && scene.is_stored("orphan"));
    scene.storage.heal();
    scene.is_removed("orphan").await?;
    more_runs(&warden, "Done", 1).await?;
    ensure!(scene.deletions_of(&id) == 1 && scene.deletions() == 1);
    Ok(())
}

/// A list of the storage and two of Kubernetes, whatever there is to do.
#[tokio::test]
async fn a_collection_takes_one_list_of_the_storage_and_two_of_kubernetes() -> Result<()> {
    let scene = Scene::quiet("calls").await?;
    let names: Vec<_> = (0..30).map(|n| format!("orphan{n}")).collect();
    for name in &names {
        scene.store(name);
    }
    let interposer = scene.interposer().await?;
    let waits = scene.not_leading(&interposer);
    let gets = interposer.add(Rule::on("GET").path_contains("/api/v1/namespaces/nsgc-calls-"));
    let warden = scene.warden().kubeconfig(interposer.kubeconfig());
    let warden = warden.start().await?;
    let lists = interposer.add(live_list());
    drop(waits);
    let whole = collected(&warden).await?;
    eventually("the orphans are gone", async || {
        scene.storage.names().is_empty()
    })
    .await?;
    ensure!(lists.taken() == 2, "{}", lists.taken());
    let calls = (scene.lists(), gets.taken(), scene.deletions());
    let each = done_times(calls.0, 1, whole)
        && done_times(calls.1, 30, whole)
        && done_times(calls.2, 30, whole);
    ensure!(each, "{calls:?}");
    Ok(())
}

/// NS-25: what would be deleted is reported, and nothing else happens.
#[tokio::test]
async fn a_dry_run_deletes_nothing() -> Result<()> {
    let scene = Scene::new("dry").await?;
    scene.store("orphan");
    let warden = scene.warden().arg("--dry-run").arg(OFTEN);
    let warden = warden.start().await?;
    scene.create_in_both("shop").await?;
    scene.delete_wholly("shop").await?;
    more_runs(&warden, "Done", 2).await?;
    let gauge = "volume_warden_gc_namespaces{verdict=\"Orphan\"}";
    ensure!(metric(&warden, gauge).await? == 2);
    let log = warden.process().log();
    ensure!(log.contains("would act"), "{log}");
    ensure!(scene.deletions() == 0 && scene.storage.names().len() == 2);
    Ok(())
}

/// A collection takes no more than it may. It is reported, and the next one goes on.
#[tokio::test]
async fn there_is_a_limit_to_what_one_collection_takes() -> Result<()> {
    let scene = Scene::new("cap").await?;
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        scene.store(name);
    }
    let capped = scene.warden().arg("--gc-max-deletions=2").start().await?;
    let whole = collected(&capped).await?;
    eventually("two are gone", async || scene.storage.names().len() == 3).await?;
    let deletions = scene.deletions();
    ensure!(done_times(deletions, 2, whole), "{deletions}");
    eventually("it is reported", async || {
        capped.process().log().contains("TooManyOrphans")
    })
    .await?;
    drop(capped);
    let next = [OFTEN, "--gc-max-deletions=2"];
    let next = scene.warden().arg(next[0]).arg(next[1]).start().await?;
    for name in names {
        scene.is_removed(name).await?;
    }
    more_runs(&next, "Done", 1).await?;
    let whole = whole && runs(&next, "Incomplete").await? == 0;
    let deletions = scene.deletions();
    ensure!(done_times(deletions, 5, whole), "{deletions}");
    Ok(())
}

/// NS-16: none, not even the first.
#[tokio::test]
async fn without_an_interval_nothing_is_collected() -> Result<()> {
    let scene = Scene::quiet("off").await?;
    scene.store("orphan");
    let warden = scene.warden().arg(NO_GC).start().await?;
    scene.leads("first").await?;
    scene.settled().await?;
    ensure!(scene.lists() == 1 && scene.deletions() == 1 && scene.is_stored("orphan"));
    ensure!(all_runs(&warden).await? == 0);
    Ok(())
}
