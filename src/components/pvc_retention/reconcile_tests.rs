use super::*;
use crate::cluster::{Elector, Feed, Feeds, Leadership};
use crate::components::pvc_retention::rule::{Mark, Update};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use std::{collections::HashSet, sync::Mutex};
use tokio::time::{Instant, timeout};

/// A reconciler with the StatefulSet `web` and its claim, whose queue is open. The API server does
/// not answer.
fn scene() -> (PvcRetentionReconciler, Arc<WorkQueue<Subject>>) {
    let metrics = Arc::new(Metrics::new());
    let service = tower::service_fn(|_: http::Request<Body>| {
        std::future::pending::<Result<http::Response<Body>, std::io::Error>>()
    });
    let client = Client::new(service, "default");
    let (_, leadership) = Elector::by_hand();
    let feeds = Feeds {
        sets: Feed::filled(vec![read(set())]),
        claims: Feed::filled(vec![read(claim("1"))]),
        ..Feeds::new(&metrics)
    };
    let reconciler = reconciler(&feeds, client, leadership, metrics);
    let queue = Arc::new(WorkQueue::default());
    queue.open();
    reconciler.listen(&queue);
    (reconciler, queue)
}

fn reconciler(
    feeds: &Feeds,
    client: Client,
    leadership: Leadership,
    metrics: Arc<Metrics>,
) -> PvcRetentionReconciler {
    PvcRetentionReconciler {
        caches: Caches::from(feeds),
        live_sets: LiveSets::new(&metrics, &client),
        live_rescues: LiveSets::new(&metrics, &client),
        live_pods: SharedList::new(metrics.clone(), &client),
        apply: Arc::new(Apply::new(client, leadership, 1, false, metrics)),
        events: Arc::default(),
    }
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("readable")
}

fn set() -> Value {
    let templates = json!([{"metadata": {"name": "data"}}]);
    json!({"metadata": {"namespace": "ns", "name": "web", "uid": "s"}, "spec": {"replicas": 1, "volumeClaimTemplates": templates}})
}

fn claim(version: &str) -> Value {
    json!({"metadata": {"namespace": "ns", "name": "data-web-0", "uid": "c", "resourceVersion": version}})
}

async fn next(queue: &WorkQueue<Subject>) -> Option<Subject> {
    timeout(Duration::from_millis(1), queue.take()).await.ok()
}

/// The API server refuses a patch if the claim has changed. The delivery of that change has to wake
/// the set, although it may have no part in the decision.
#[tokio::test(start_paused = true)]
async fn a_change_of_its_claim_ends_the_backoff_of_a_set() {
    let (reconciler, queue) = scene();
    let web = ObjectName::new("ns", "web");
    let claims = &reconciler.caches.claims;
    claims.hear(read(claim("2")), true);
    assert_eq!(next(&queue).await, None, "nothing had failed");
    queue.add(Subject::Policy(web.clone()));
    let begun = Instant::now();
    let key = next(&queue).await.expect("queued");
    queue.failed(&key, Duration::from_secs(300));
    assert_eq!(next(&queue).await, None, "it waits");
    claims.hear(read(claim("3")), true);
    assert_eq!(next(&queue).await, Some(Subject::Policy(web)));
    assert!(begun.elapsed() < Duration::from_secs(1));
}

/// The claims of `c` are named `a-b-c-<ordinal>`, and so are those of `b-c`. The claim got its
/// owner when `c` was scaled down; now a pod of `b-c` mounts it too.
#[tokio::test]
async fn a_claim_that_another_set_uses_too_is_not_left_to_the_deletion_of_a_pod() {
    let uses = |set: &str, node: &str| {
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": set, "uid": set, "controller": true});
        let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "a-b-c-0"}});
        json!({"metadata": {"namespace": "ns", "name": format!("{set}-0"), "uid": format!("{set}-0"), "ownerReferences": [owner]},
            "spec": {"nodeName": node, "volumes": [volume]}})
    };
    let makes = |set: &str, template: &str| {
        let policy = json!({"whenScaled": "Delete", "whenDeleted": "Delete"});
        json!({"metadata": {"namespace": "ns", "name": set, "uid": set}, "spec": {"replicas": 0,
            "persistentVolumeClaimRetentionPolicy": policy, "volumeClaimTemplates": [{"metadata": {"name": template}}]}})
    };
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "name": "c-0", "uid": "c-0", "controller": true, "blockOwnerDeletion": true});
    let mut claim = json!({"metadata": {"namespace": "ns", "name": "a-b-c-0", "uid": "u", "resourceVersion": "1",
        "annotations": {"volume-warden.dev/scaled-with": "c"}, "ownerReferences": [pod]}});
    let rescued = |claim: &Value, pods: Vec<Value>| {
        let caches = Caches {
            sets: Feed::filled(vec![read(makes("c", "a-b")), read(makes("b-c", "a"))]),
            claims: Feed::filled(vec![read(claim.clone())]),
            pods: Feed::filled(pods.into_iter().map(read).collect()),
        };
        let (reconciler, _) = scene();
        let reconciler = PvcRetentionReconciler {
            caches,
            ..reconciler
        };
        let judged = reconciler.look(&ObjectName::new("ns", "c"));
        let judged = judged.expect("c is managed");
        let verdicts = judged.rescues().map(|(_, verdict)| verdict.step.clone());
        verdicts.collect::<Vec<_>>()
    };
    let (own, other) = (uses("c", "n"), uses("b-c", "n"));
    let removed = vec![Step::Update(Update {
        owners: Vec::new(),
        mark: Mark::Remove,
    })];
    let both = || vec![own.clone(), other.clone()];
    assert_eq!(rescued(&claim, vec![own.clone()]), [], "only c uses it");
    assert_eq!(rescued(&claim, both()), removed);
    assert_eq!(rescued(&claim, vec![other.clone()]), []);
    claim["metadata"]["ownerReferences"][0] = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "c", "uid": "c", "controller": true});
    assert_eq!(rescued(&claim, vec![other.clone()]), removed);
    claim["metadata"]["ownerReferences"] = json!([]);
    claim["metadata"]["annotations"] = json!({});
    assert_eq!(rescued(&claim, both()), []);
}

/// A set that is deleted while another replica leads is never reconciled here.
#[tokio::test]
async fn events_of_sets_that_no_longer_exist_are_forgotten() {
    let (reconciler, _) = scene();
    let news = |set: &str| {
        let causes = HashSet::from([(Arc::from("data-web-0"), "Reason")]);
        let name = ObjectName::new("ns", set);
        !reconciler.events.news(&name, "s", causes).is_empty()
    };
    assert!(news("web") && news("gone"));
    assert!(!news("web") && !news("gone"));
    assert_eq!(reconciler.candidates().len(), 2);
    assert!(!news("web"), "it exists");
    assert!(news("gone"));
}

/// What the API server has and the watches have delivered: StatefulSets, one claim and pods.
struct World {
    sets: Vec<Value>,
    claim: Value,
    /// The pods that the watch has delivered.
    cached: Vec<Value>,
    /// The pods that a LIST shows.
    listed: Vec<Value>,
    /// The name of a StatefulSet that cannot be read.
    unreadable: &'static str,
}

impl World {
    /// Reconciles the subject, and returns whether that succeeds, and the patches.
    async fn reconciled(self, subject: Subject) -> (bool, Vec<Value>) {
        let patches = Arc::new(Mutex::new(Vec::new()));
        let log = patches.clone();
        let (sets, listed, unreadable) = (self.sets.clone(), self.listed, self.unreadable);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (log, sets, listed) = (log.clone(), sets.clone(), listed.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let path = head.uri.path();
                let last = path.rsplit('/').next().unwrap_or_default();
                let (code, answer): (u16, Value) = if path.ends_with("/pods") {
                    let answer = json!({"metadata": {"resourceVersion": "9"}, "items": listed});
                    (200, answer)
                } else if path.contains("/statefulsets/") && last == unreadable {
                    (
                        500,
                        json!({"kind": "Status", "code": 500, "reason": "InternalError"}),
                    )
                } else if path.contains("/statefulsets/") {
                    let mut sets = sets.into_iter();
                    let found = sets.find(|set| set["metadata"]["name"] == last);
                    (200, found.expect("the set exists"))
                } else {
                    let patch = serde_json::from_slice(&body).expect("a patch");
                    log.lock().expect("lock").push(patch);
                    (200, json!({"metadata": {}}))
                };
                let answer = Body::from(answer.to_string().into_bytes());
                let response = http::Response::builder().status(code).body(answer)?;
                Ok::<_, tower::BoxError>(response)
            }
        });
        let client = Client::new(service, "default");
        let metrics = Arc::new(Metrics::new());
        let (lead, leadership) = Elector::by_hand();
        lead.replace(Some(Instant::now() + Duration::from_secs(600)));
        let feeds = Feeds {
            sets: Feed::filled(self.sets.into_iter().map(read).collect()),
            claims: Feed::filled(vec![read(self.claim)]),
            pods: Feed::filled(self.cached.into_iter().map(read).collect()),
            ..Feeds::new(&metrics)
        };
        let reconciler = reconciler(&feeds, client, leadership, metrics);
        let outcome = reconciler.reconcile(&subject).await;
        let patches = patches.lock().expect("lock").clone();
        (outcome.is_ok(), patches)
    }
}

/// The claim in range has its pod as owner, and the watch of pods does not have that pod. Returns
/// the patches of a reconcile, given what the API server lists.
async fn patched(listed: Vec<Value>) -> Vec<Value> {
    let policy = json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Retain"}}});
    let mut web = set();
    json_patch::merge(&mut web, &policy);
    let mut owned = claim("1");
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "p", "controller": true}]);
    let world = World {
        sets: vec![web],
        claim: owned,
        cached: Vec::new(),
        listed,
        unreadable: "",
    };
    let key = Subject::Policy(ObjectName::new("ns", "web"));
    let (settled, patches) = world.reconciled(key).await;
    assert!(settled);
    patches
}

/// A StatefulSet with one replica, whose claims are deleted with it.
fn owning(name: &str, template: &str) -> Value {
    let policy = json!({"whenScaled": "Delete", "whenDeleted": "Delete"});
    json!({"metadata": {"namespace": "ns", "name": name, "uid": name}, "spec": {"replicas": 1,
        "persistentVolumeClaimRetentionPolicy": policy, "volumeClaimTemplates": [{"metadata": {"name": template}}]}})
}

/// The claim `a-b-c-0` can be one of `c` or of `b-c`, and a pod of `c` mounts it. The watch of pods
/// may be late, so a LIST has to show that before `c` becomes the owner.
#[tokio::test]
async fn a_claim_that_two_sets_may_have_gets_no_owner_without_live_reads() {
    let controller = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "c", "uid": "c", "controller": true});
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "a-b-c-0"}});
    let pod = json!({"metadata": {"namespace": "ns", "name": "c-0", "uid": "p", "ownerReferences": [controller]},
        "spec": {"nodeName": "n", "volumes": [volume]}});
    let by_pod =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "c-0", "uid": "p", "controller": true}]);
    let world = |owners: &Value, unreadable| World {
        sets: vec![owning("c", "a-b"), owning("b-c", "a")],
        claim: json!({"metadata": {"namespace": "ns", "name": "a-b-c-0", "uid": "u", "resourceVersion": "1",
            "ownerReferences": owners}}),
        cached: vec![pod.clone()],
        listed: vec![pod.clone()],
        unreadable,
    };
    let c = || ObjectName::new("ns", "c");
    let adds = |patch: &Value| {
        let operations = patch.as_array().into_iter().flatten();
        let mut changes = operations.filter(|each| each["op"] != "test");
        changes.any(|each| each.to_string().contains("StatefulSet"))
    };
    let (settled, patches) = world(&by_pod, "").reconciled(Subject::Rescue(c())).await;
    assert_eq!((settled, patches.len()), (true, 1), "{patches:?}");
    assert!(!adds(&patches[0]), "{patches:?}");
    let (settled, patches) = world(&json!([]), "").reconciled(Subject::Policy(c())).await;
    assert_eq!((settled, patches.len()), (true, 1), "{patches:?}");
    assert!(adds(&patches[0]), "{patches:?}");
    // If one of the StatefulSets cannot be read, nothing is written.
    for unreadable in ["c", "b-c"] {
        for (owners, subject) in [
            (&by_pod, Subject::Rescue(c())),
            (&json!([]), Subject::Policy(c())),
        ] {
            let case = format!("{unreadable} {subject}");
            let (settled, patches) = world(owners, unreadable).reconciled(subject).await;
            assert_eq!((settled, patches.len()), (false, 0), "{case}: {patches:?}");
        }
    }
}

#[tokio::test]
async fn a_claim_in_range_is_not_deleted_with_a_pod_that_the_watch_lacks() {
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s", "controller": true});
    let pod = json!({"metadata": {"namespace": "ns", "name": "web-0", "uid": "p", "ownerReferences": [owner]},
        "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data-web-0"}}]}});
    let patches = patched(vec![pod]).await;
    assert_eq!(patches.len(), 1);
    let operations = patches[0].as_array().expect("operations");
    let removes = operations.iter().any(|each| {
        let owners = each["path"]
            .as_str()
            .is_some_and(|path| path.contains("ownerReferences"));
        owners && each["op"] != "test" && !each.to_string().contains("web-0")
    });
    assert!(removes, "{operations:?}");
    assert_eq!(
        patched(Vec::new()).await,
        [] as [Value; 0],
        "it is left to the garbage collector"
    );
}
