//! Tests of the order of writes.

use super::*;
use crate::{
    cluster::{
        Apply, Elector,
        test_server::{answering_each_after, failure},
    },
    drain::DrainConfig,
    objects::{ObjectName, Tracked as _, Volume, patch::remove},
    telemetry::Metrics,
};
use http::{Method, request::Parts};
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;

/// The writes of a cleanup that changes a volume with a copy: method and end of the path of each.
/// The API server answers patches of the volume with this code. The lists of the plan support a
/// purge for `lists`.
async fn written(
    code: u16,
    precondition: Option<Precondition>,
    lists: Duration,
) -> (&'static str, Vec<String>) {
    written_after(Duration::ZERO, code, precondition, lists).await
}

/// As [`written`], where the API server takes the time `check` to answer a dry run.
async fn written_after(
    check: Duration,
    code: u16,
    precondition: Option<Precondition>,
    lists: Duration,
) -> (&'static str, Vec<String>) {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let log = sent.clone();
    let delay = move |head: &Parts| {
        if is_dry_run(head) {
            check
        } else {
            Duration::ZERO
        }
    };
    let client = answering_each_after(delay, move |head, _| {
        let (method, uri) = (&head.method, &head.uri);
        let last = uri.path().rsplit('/').next().unwrap_or_default().to_owned();
        if matches!(*method, Method::PATCH | Method::DELETE) {
            let dry = if is_dry_run(head) { " dryRun" } else { "" };
            let line = format!("{method} {last}{dry}");
            log.lock().push(line);
        }
        let mut metadata = json!({"name": last, "uid": "1", "resourceVersion": "1"});
        // A user deletes the claim while the copy is deleted.
        let is_copy = |line: &String| line.starts_with("DELETE");
        if last == "c" && log.lock().iter().any(is_copy) {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        match *method {
            Method::PATCH if code != 200 => failure(code, "Forbidden"),
            _ => (200, json!({"metadata": metadata, "data": {}})),
        }
    });
    let metrics = Arc::new(Metrics::new());
    let (lead, leadership) = Elector::for_test();
    lead.replace(Some(Instant::now() + Duration::from_secs(600)));
    let drain = Drain {
        apply: Arc::new(Apply::new(client.clone(), leadership, 1, false, metrics)),
        client,
        namespace: None,
        system_namespace: "volume-warden".to_owned(),
        config: DrainConfig {
            components: Vec::new(),
            in_tree: false,
            purge_trash: false,
            id: Default::default(),
        },
        in_flight: 1,
    };
    let volume: Value = json!({"metadata": {"name": "pv", "uid": "v", "resourceVersion": "1"}});
    let volume = serde_json::from_value(volume).expect("a volume");
    let volume = Volume::track(volume).expect("a volume");
    let (name, version) = (ObjectName::cluster_scoped("pv"), &volume.resource_version);
    let mut cleanup = ObjectCleanup::new(Kind::PersistentVolume, &name, &volume.uid, version);
    cleanup.remove_parts("trash".to_owned(), [remove(&["annotations", "trash"])]);
    cleanup.deletes_copy = true;
    cleanup.precondition = precondition;
    let lists = Proof::of_test(lists);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (_, applied) = drain.perform(cleanup, lists).await;
    let sent = sent.lock().clone();
    (applied.label(), sent)
}

fn is_dry_run(head: &Parts) -> bool {
    let query = head.uri.query().unwrap_or_default();
    query.contains("dryRun=All")
}

const LONG: Duration = Duration::from_secs(10);

fn claim(uid: &str) -> ClaimRef {
    ClaimRef {
        name: ObjectName::new("ns", "c"),
        uid: uid.into(),
        resource_version: None,
    }
}

/// With the policy Delete, the data would be deleted with the claim.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_deleted_during_the_write_keeps_its_record() {
    let precondition = Some(Precondition::Exists(claim("1")));
    let (applied, sent) = written(200, precondition, LONG).await;
    let checked = ["PATCH pv dryRun", "DELETE volume-warden-trash-v"];
    assert_eq!(
        (applied, &*sent),
        ("Stale", &checked.map(str::to_owned)[..])
    );
}

/// Another volume with the same data may have been created since the lists were read.
#[tokio::test(start_paused = true)]
async fn a_purge_rests_on_new_lists() {
    for (lists, outcome, writes) in [(LONG, "Done", 3), (Duration::from_millis(900), "Stale", 0)] {
        let precondition = Some(Precondition::Deleted(claim("another")));
        let (applied, sent) = written(200, precondition, lists).await;
        assert_eq!((applied, sent.len()), (outcome, writes), "{lists:?}");
    }
}

/// The lists become too old while the API server checks the patch. Without its copy, the volume
/// could not be created again.
#[tokio::test(start_paused = true)]
async fn the_copy_of_a_volume_is_kept_if_the_lists_are_too_old_after_the_check() {
    let order = [
        "PATCH pv dryRun",
        "DELETE volume-warden-trash-v",
        "PATCH pv",
    ];
    let lists = Duration::from_secs(3);
    for (check, outcome, writes) in [(1, "Done", 3), (3, "Stale", 1)] {
        let precondition = Some(Precondition::Deleted(claim("another")));
        let check = Duration::from_secs(check);
        let (applied, sent) = written_after(check, 200, precondition, lists).await;
        assert_eq!(applied, outcome, "{check:?}");
        assert_eq!(sent, order[..writes], "{check:?}");
    }
}

/// Only the copy could create the volume again, and after a refusal the volume stays in the trash.
#[tokio::test(start_paused = true)]
async fn the_copy_of_a_volume_is_deleted_only_if_the_volume_can_be_changed() {
    let (applied, sent) = written(403, None, LONG).await;
    assert_eq!(
        (applied, &*sent),
        ("Failed", &["PATCH pv dryRun".to_owned()][..])
    );
    let (applied, sent) = written(200, None, LONG).await;
    assert_eq!(applied, "Done");
    let order = [
        "PATCH pv dryRun",
        "DELETE volume-warden-trash-v",
        "PATCH pv",
    ];
    assert_eq!(sent, order);
}
