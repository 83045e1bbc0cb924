//! Tests of the rule, and of the writes with a simulated API server.

use super::{
    caches::Caches,
    reconcile::TrashListReconciler,
    rule::{Step, View, decide},
};
use crate::{
    awaited::Awaited,
    cluster::{
        Apply, Elector, Feeds, Lane, LiveGet, Reconcile, Requeue,
        test_server::{answering, failure},
    },
    objects::{
        Namespace, ObjectName, Tracked, TrashList, Volume,
        trash::{PURGE, TRASH},
        trash_list::{KEY, List, State, TRASH_LIST, config_map, name_in},
        volume::VolumeWire,
    },
    telemetry::Metrics,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};
use tokio::time::Instant;

/// A volume of the claim `shop/<claim>` that is in the trash since the first of January, of the
/// namespace with the uid `now`.
fn wire(claim: &str, record: Value, changes: Value) -> VolumeWire {
    let mut written = json!({
        "policy": "Delete", "windowSeconds": 3600, "deletedAt": "2026-01-01T00:00:00Z",
        "claim": {"namespace": "shop", "name": claim, "uid": "1", "namespaceUid": "now"},
    });
    json_patch::merge(&mut written, &record);
    let mut volume = json!({
        "metadata": {"name": format!("pv-{claim}"), "annotations": {TRASH: written.to_string()}},
        "spec": {"claimRef": {"namespace": "shop", "name": claim, "uid": "1"},
            "storageClassName": "fast", "capacity": {"storage": "10Gi"},
            "persistentVolumeReclaimPolicy": "Retain"},
        "status": {"phase": "Released"},
    });
    json_patch::merge(&mut volume, &changes);
    serde_json::from_value(volume).expect("a volume")
}

fn volume(claim: &str, record: Value, changes: Value) -> (ObjectName, Arc<Volume>) {
    let name = ObjectName::cluster_scoped(format!("pv-{claim}"));
    (name, Arc::new(wire(claim, record, changes).into()))
}

fn namespace(uid: &str, changes: Value) -> Namespace {
    let mut namespace = json!({"metadata": {"name": "shop", "uid": uid}});
    json_patch::merge(&mut namespace, &changes);
    let wire = serde_json::from_value(namespace).expect("a namespace");
    Namespace::track(wire).expect("every namespace is kept")
}

fn list(text: &str, changes: Value) -> TrashList {
    let mut map = config_map(&name_in("shop"), text);
    json_patch::merge(&mut map, &changes);
    TrashList::track(serde_json::from_value(map).expect("a ConfigMap")).expect("kept")
}

fn step(volumes: &[(ObjectName, Arc<Volume>)], list: Option<&TrashList>) -> Step {
    let namespace = namespace("now", json!({}));
    let view = View {
        namespace: Some(&namespace),
        excluded: false,
        volumes,
        list,
    };
    decide(&view)
}

fn created(volumes: &[(ObjectName, Arc<Volume>)]) -> Option<List> {
    match step(volumes, None) {
        Step::Create(text) => Some(serde_json::from_str(&text).expect("a list")),
        Step::Leave => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_volumes_of_a_namespace_are_those_whose_record_names_it() {
    let feeds = Feeds::new(&Arc::new(Metrics::new()));
    let caches = Caches::new(&feeds, None);
    let known = || (caches.volumes_of("shop").len(), caches.candidates());
    let moved = json!({"claim": {"namespace": "other"}});
    feeds.volumes.deliver(wire("a", json!({}), json!({})), true);
    assert_eq!(known(), (1, vec![name_in("shop")]));
    feeds.volumes.deliver(wire("a", moved, json!({})), true);
    assert_eq!(known(), (0, vec![name_in("other")]));
    feeds
        .volumes
        .deliver(wire("a", json!({}), json!({})), false);
    assert_eq!(known(), (0, vec![]));
}

#[test]
fn a_list_says_what_happens_to_each_claim() {
    let none = || json!({});
    let purge = json!({"metadata": {"annotations": {PURGE: "1"}}});
    let policy = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}});
    let volumes = [
        volume("a", none(), none()),
        volume("b", none(), purge),
        volume("c", json!({"policy": "Retain"}), none()),
        volume("d", none(), policy),
    ];
    let list = created(&volumes).expect("a list");
    let states: Vec<_> = list.volumes.iter().map(|each| each.state).collect();
    let expected = [
        State::InTrash,
        State::PurgeRequested,
        State::Kept,
        State::Purging,
    ];
    assert_eq!(states, expected);
    let first = serde_json::to_value(&list.volumes[0]).expect("JSON");
    let expected = json!({"claim": "a", "capacity": "10Gi", "storageClass": "fast",
        "deletedAt": "2026-01-01T00:00:00Z", "purgedAt": "2026-01-01T01:00:00Z",
        "state": "InTrash", "volume": "pv-a", "windowSeconds": 3600});
    assert_eq!(first, expected);
}

#[test]
fn the_page_shows_the_list_of_a_deleted_claim() {
    let record = json!({"windowSeconds": 259_200, "deletedAt": "2026-01-01T12:00:00Z"});
    let name = json!({"metadata": {"name": "pvc-7f3a"}});
    let (_, photos) = volume("photos", record, name);
    let Step::Create(text) = step(&[(ObjectName::cluster_scoped("pvc-7f3a"), photos)], None) else {
        panic!("it is created");
    };
    let page = include_str!("../../../docs/components/trash-list.md");
    let shown = page.split("```text\n").nth(1);
    let shown = shown.and_then(|rest| rest.split("\n```").next());
    assert_eq!(Some(text.as_str()), shown);
}

#[test]
fn only_claims_of_the_present_namespace_that_are_in_the_trash_are_listed() {
    let of = |uid: Value| json!({"claim": {"namespaceUid": uid}});
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    for (record, changes) in [
        (of(json!("earlier")), json!({})),
        (of(json!(null)), json!({})),
        (json!({}), phase("Bound")),
        (json!({}), phase("Available")),
        (json!({"claim": {"uid": "2"}}), json!({})),
    ] {
        let hidden = volume("hidden", record.clone(), changes);
        assert_eq!(created(std::slice::from_ref(&hidden)), None, "{record}");
        let list = created(&[hidden, volume("own", json!({}), json!({}))]);
        let claims: Vec<_> = list.into_iter().flat_map(|list| list.volumes).collect();
        assert_eq!(claims.len(), 1, "{claims:?}");
        assert_eq!(claims[0].claim, "own");
    }
}

#[test]
fn a_list_is_written_only_if_it_changes() {
    let volumes = [volume("a", json!({}), json!({}))];
    let Step::Create(text) = step(&volumes, None) else {
        panic!("it is created");
    };
    let same = list(&text, json!({}));
    assert_eq!(step(&volumes, Some(&same)), Step::Leave);
    for changes in [json!({"data": {KEY: "{}"}}), json!({"data": {"x": "y"}})] {
        let changed = list(&text, changes);
        assert_eq!(step(&volumes, Some(&changed)), Step::Write(text.clone()));
    }
    // It is created again.
    for changes in [
        json!({"immutable": true}),
        json!({"immutable": false}),
        json!({"binaryData": {"a": "YQ=="}}),
    ] {
        assert_eq!(step(&volumes, Some(&list(&text, changes))), Step::Delete);
    }
    assert_eq!(step(&[], Some(&same)), Step::Delete);
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(step(&[], Some(&list(&text, deleting))), Step::Leave);
}

#[test]
fn a_config_map_of_a_user_is_left_unchanged() {
    let users = list("mine", json!({"metadata": {"labels": {TRASH_LIST: null}}}));
    let volumes = [volume("a", json!({}), json!({}))];
    assert_eq!(step(&volumes, Some(&users)), Step::Report);
    assert_eq!(step(&[], Some(&users)), Step::Leave);
}

#[test]
fn a_namespace_that_has_opted_out_or_is_deleted_has_no_list() {
    let volumes = [volume("a", json!({}), json!({}))];
    let known = list("{}", json!({}));
    let decided = |namespace: Option<&Namespace>, excluded, list| {
        decide(&View {
            namespace,
            excluded,
            volumes: &volumes,
            list,
        })
    };
    let present = namespace("now", json!({}));
    assert_eq!(decided(Some(&present), true, None), Step::Leave);
    assert_eq!(decided(Some(&present), true, Some(&known)), Step::Delete);
    let deletion = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let deleting = namespace("now", deletion);
    let recreated = namespace("later", json!({}));
    for list in [None, Some(&known)] {
        assert_eq!(decided(None, false, list), Step::Leave);
        assert_eq!(decided(Some(&deleting), false, list), Step::Leave);
        assert_eq!(decided(Some(&deleting), true, list), Step::Leave);
    }
    assert_eq!(decided(Some(&recreated), false, None), Step::Leave);
}

/// What the API server has, and the writes that it got.
#[derive(Default)]
struct Server {
    list: Mutex<Option<Value>>,
    /// Whether it refuses writes, because the list has changed.
    refuses: AtomicBool,
    /// The number of reads of the namespace.
    reads: AtomicUsize,
    writes: Mutex<Vec<(String, Value)>>,
}

impl Server {
    fn answer(&self, method: &http::Method, path: &str, sent: Value) -> (u16, Value) {
        if path == "/api/v1/namespaces/shop" {
            self.reads.fetch_add(1, Relaxed);
            return (200, json!({"metadata": {"name": "shop", "uid": "now"}}));
        }
        if method == http::Method::GET {
            let list = self.list.lock().clone();
            return list.map_or(failure(404, "NotFound"), |list| (200, list));
        }
        let last = path.rsplit('/').next().unwrap_or_default();
        let mut writes = self.writes.lock();
        writes.push((format!("{method} {last}"), sent));
        if self.refuses.load(Relaxed) {
            return failure(409, "Conflict");
        }
        let written = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": {}});
        (200, written)
    }

    fn writes(&self) -> Vec<String> {
        let writes = self.writes.lock();
        writes.iter().map(|(write, _)| write.clone()).collect()
    }
}

/// The number of bulk writes at the same time.
const BULK: usize = 4;

/// A trash-list that leads.
struct Scene {
    server: Arc<Server>,
    feeds: Feeds,
    reconciler: TrashListReconciler,
    _lead: Arc<Awaited<Option<Instant>>>,
}

impl Scene {
    fn new() -> Self {
        let server = Arc::new(Server::default());
        let asked = server.clone();
        let client = answering(move |head, sent| asked.answer(&head.method, head.uri.path(), sent));
        let metrics = Arc::new(Metrics::new());
        let (lead, leadership) = Elector::for_test();
        lead.replace(Some(Instant::now() + std::time::Duration::from_secs(3600)));
        let feeds = Feeds::new(&metrics);
        let apply = Apply::new(client.clone(), leadership, BULK, false, metrics.clone());
        let reconciler = TrashListReconciler {
            caches: Caches::new(&feeds, None),
            opt_out: true,
            namespaces: LiveGet::new(metrics.clone(), &client),
            live: LiveGet::new(metrics, &client),
            apply: Arc::new(apply),
            written: Default::default(),
            reported: Arc::default(),
        };
        Self {
            server,
            feeds,
            reconciler,
            _lead: lead,
        }
    }

    /// Delivers the list with this text, and lets a second pass.
    async fn deliver(&self, text: &str) {
        let mut map = config_map(&name_in("shop"), text);
        map["metadata"]["uid"] = json!("u");
        map["metadata"]["resourceVersion"] = json!("7");
        *self.server.list.lock() = Some(map.clone());
        let wire = serde_json::from_value(map).expect("a ConfigMap");
        self.feeds.trash_lists.deliver(wire, true);
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
    }

    async fn reconcile(&self) -> Requeue {
        let reconciled = self.reconciler.reconcile(&name_in("shop")).await;
        reconciled.expect("it is reconciled")
    }
}

/// A user who changes the list all the time makes each write fail.
#[tokio::test(start_paused = true)]
async fn a_write_that_failed_is_repeated_after_a_second() {
    let scene = Scene::new();
    let volume = wire("a", json!({}), json!({}));
    scene.feeds.volumes.deliver(volume, true);
    scene.deliver("changed").await;
    scene.server.refuses.store(true, Relaxed);
    let refused = scene.reconciler.reconcile(&name_in("shop")).await;
    // A shorter backoff would end within that second, and begin again: the evaluation then
    // succeeds.
    let refused = format!("{:?}", refused.expect_err("it is repeated"));
    assert!(refused.contains("Exponential(1s)"), "{refused}");
    scene.feeds.trash_lists.deliver(
        serde_json::from_value(config_map(&name_in("shop"), "changed again")).expect("a list"),
        true,
    );
    assert!(matches!(scene.reconcile().await, Requeue::After(..)));
    assert_eq!(scene.server.writes().len(), 1);
}

/// Meanwhile, the namespace may be recreated, whose users must not read the names of the claims.
#[tokio::test(start_paused = true)]
async fn a_list_is_not_created_long_after_its_namespace_was_read() {
    let scene = Scene::new();
    let volume = wire("a", json!({}), json!({}));
    scene.feeds.volumes.deliver(volume, true);
    let (name, lanes) = (name_in("shop"), &scene.reconciler.apply.lanes);
    let mut permits = Vec::new();
    for _ in 0..BULK {
        permits.push(lanes.permit(Lane::Bulk, &name.namespace).await);
    }
    let late = scene.reconciler.reconcile(&name).await;
    late.expect_err("it is decided again");
    drop(permits);
    assert_eq!(scene.server.writes(), [""; 0]);
}

/// A conflict does not mean that the list exists: two requests may compete for the rest of a quota.
#[tokio::test(start_paused = true)]
async fn a_creation_that_conflicts_is_repeated() {
    let scene = Scene::new();
    let volume = wire("a", json!({}), json!({}));
    scene.feeds.volumes.deliver(volume, true);
    scene.server.refuses.store(true, Relaxed);
    let refused = scene.reconciler.reconcile(&name_in("shop")).await;
    refused.expect_err("it is repeated");
    scene.server.refuses.store(false, Relaxed);
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    scene.reconcile().await;
    assert_eq!(scene.server.writes(), ["POST configmaps"; 2]);
}

/// While all claims of a namespace exist, nothing is read or written for its list.
#[tokio::test(start_paused = true)]
async fn a_namespace_without_deleted_claims_is_not_read() {
    let scene = Scene::new();
    let bound = wire("a", json!({}), json!({"status": {"phase": "Bound"}}));
    scene.feeds.volumes.deliver(bound, true);
    scene.reconcile().await;
    assert_eq!(scene.server.reads.load(Relaxed), 0);
    let released = wire("a", json!({}), json!({}));
    scene.feeds.volumes.deliver(released, true);
    scene.reconcile().await;
    assert_eq!(scene.server.reads.load(Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_created_changed_and_deleted_with_its_preconditions() {
    let scene = Scene::new();
    scene
        .feeds
        .volumes
        .deliver(wire("a", json!({}), json!({})), true);
    assert_eq!(scene.reconciler.candidates(), [name_in("shop")]);
    scene.reconcile().await;
    assert_eq!(scene.server.writes(), ["POST configmaps"]);
    let created = scene.server.writes.lock()[0].1.clone();
    let text = created["data"][KEY].as_str().unwrap_or_default().to_owned();
    scene.deliver(&text).await;
    scene.reconcile().await;
    assert_eq!(scene.server.writes().len(), 1, "nothing has changed");
    scene
        .feeds
        .volumes
        .deliver(wire("b", json!({}), json!({})), true);
    scene.reconcile().await;
    assert_eq!(scene.server.writes()[1..], ["PATCH volume-warden-trash"]);
    let patch = scene.server.writes.lock()[1].1.to_string();
    for test in [
        r#"{"op":"test","path":"/metadata/uid","value":"u"}"#,
        r#"{"op":"test","path":"/metadata/resourceVersion","value":"7"}"#,
    ] {
        assert!(patch.contains(test), "{patch}");
    }
    scene.deliver("changed").await;
    for claim in ["a", "b"] {
        scene
            .feeds
            .volumes
            .deliver(wire(claim, json!({}), json!({})), false);
    }
    assert_eq!(scene.reconciler.candidates(), [name_in("shop")]);
    scene.reconcile().await;
    let writes = scene.server.writes.lock().clone();
    assert_eq!(writes[2].0, "DELETE volume-warden-trash");
    let preconditions = json!({"uid": "u", "resourceVersion": "7"});
    assert_eq!(writes[2].1["preconditions"], preconditions);
}

/// A namespace may delete thousands of claims at once.
#[tokio::test(start_paused = true)]
async fn a_list_is_written_once_a_second() {
    let scene = Scene::new();
    scene
        .feeds
        .volumes
        .deliver(wire("a", json!({}), json!({})), true);
    scene.reconcile().await;
    scene
        .feeds
        .volumes
        .deliver(wire("b", json!({}), json!({})), true);
    assert!(matches!(scene.reconcile().await, Requeue::After(..)));
    assert_eq!(scene.server.writes().len(), 1);
    scene.deliver("{}").await;
    scene.reconcile().await;
    assert_eq!(scene.server.writes().len(), 2);
}

/// A user removed its label after the watch delivered the list.
#[tokio::test(start_paused = true)]
async fn a_list_that_has_changed_meanwhile_is_not_deleted() {
    let scene = Scene::new();
    scene.deliver("{}").await;
    let unlabeled = json!({"metadata": {"labels": null, "resourceVersion": "8"}});
    if let Some(list) = &mut *scene.server.list.lock() {
        json_patch::merge(list, &unlabeled);
    }
    let name = name_in("shop");
    let error = scene.reconciler.reconcile(&name).await;
    assert!(error.is_err(), "the reconcile is repeated");
    assert_eq!(scene.server.writes(), [] as [&str; 0]);
}
