//! What the reconciler writes, given what the API server lists.

use super::*;

/// The StatefulSet `web` with this policy.
fn following(when_deleted: &str, when_scaled: &str) -> Value {
    let mut web = set();
    web["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenDeleted": when_deleted, "whenScaled": when_scaled});
    web
}

/// What the API server has and the watches have delivered: StatefulSets, claims and pods.
struct World {
    sets: Vec<Value>,
    claims: Vec<Value>,
    /// The pods that the watch has delivered.
    cached: Vec<Value>,
    /// The pods that a LIST shows.
    listed: Vec<Value>,
    /// The name of a StatefulSet that cannot be read.
    unreadable: &'static str,
}

impl World {
    /// Returns a reconciler, and the patches that it sends.
    fn answering(self) -> (PvcRetentionReconciler, Arc<Mutex<Vec<Value>>>) {
        let patches = Arc::new(Mutex::new(Vec::new()));
        let log = patches.clone();
        let (sets, listed, unreadable) = (self.sets.clone(), self.listed, self.unreadable);
        let client = answering(move |head, patch| {
            let path = head.uri.path();
            let last = path.rsplit('/').next().unwrap_or_default();
            if path.ends_with("/pods") {
                let list = json!({"metadata": {"resourceVersion": "9"}, "items": listed});
                (200, list)
            } else if path.contains("/statefulsets/") && last == unreadable {
                failure(500, "InternalError")
            } else if path.contains("/statefulsets/") {
                let mut sets = sets.iter();
                let found = sets.find(|set| set["metadata"]["name"] == last);
                (200, found.expect("the set exists").clone())
            } else {
                log.lock().push(patch);
                (200, json!({"metadata": {}}))
            }
        });
        let metrics = Arc::new(Metrics::new());
        let (lead, leadership) = Elector::for_test();
        lead.replace(Some(Instant::now() + Duration::from_secs(600)));
        let feeds = Feeds {
            sets: Feed::filled(self.sets.into_iter().map(read).collect()),
            claims: Feed::filled(self.claims.into_iter().map(read).collect()),
            pods: Feed::filled(self.cached.into_iter().map(read).collect()),
            ..Feeds::new(&metrics)
        };
        (reconciler(&feeds, client, leadership, metrics), patches)
    }

    /// Reconciles the subject, and returns whether that succeeds, and the patches.
    async fn reconciled(self, subject: Subject) -> (bool, Vec<Value>) {
        let (reconciler, patches) = self.answering();
        let outcome = reconciler.reconcile(&subject).await;
        let patches = patches.lock().clone();
        (outcome.is_ok(), patches)
    }
}

/// The claim in range has its pod as owner, and the watch of pods does not have that pod. Returns
/// the patches of a reconcile, given what the API server lists.
async fn patched(listed: Vec<Value>) -> Vec<Value> {
    let mut owned = claim("1");
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "p", "controller": true}]);
    let world = World {
        sets: vec![following("Retain", "Delete")],
        claims: vec![owned],
        cached: Vec::new(),
        listed,
        unreadable: "",
    };
    let key = Subject::Policy(ObjectName::new("ns", "web"));
    let (settled, patches) = world.reconciled(key).await;
    assert!(settled);
    patches
}

/// The pod of `web` that uses the claim.
fn web_0() -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s", "controller": true});
    json!({"metadata": {"namespace": "ns", "name": "web-0", "uid": "p", "ownerReferences": [owner]},
        "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data-web-0"}}]}})
}

#[tokio::test]
async fn a_claim_in_range_is_not_deleted_with_a_pod_that_the_watch_lacks() {
    let patches = patched(vec![web_0()]).await;
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
        claims: vec![
            json!({"metadata": {"namespace": "ns", "name": "a-b-c-0", "uid": "u", "resourceVersion": "1",
            "ownerReferences": owners}}),
        ],
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

/// STS-31: the watch delivers the claim after its StatefulSet was reconciled.
#[tokio::test(start_paused = true)]
async fn a_claim_that_appears_later_gets_its_owner() {
    let world = World {
        sets: vec![following("Delete", "Retain")],
        claims: Vec::new(),
        cached: Vec::new(),
        listed: Vec::new(),
        unreadable: "",
    };
    let (reconciler, patches) = world.answering();
    let web = ObjectName::new("ns", "web");
    let queue = Arc::new(WorkQueue::default());
    queue.open();
    reconciler.listen(&queue);
    let key = Subject::Policy(web.clone());
    reconciler.reconcile(&key).await.expect("no failure");
    assert_eq!(*patches.lock(), [] as [Value; 0]);
    reconciler.caches.claims.deliver(read(claim("1")), true);
    let woken = [next(&queue).await, next(&queue).await];
    assert_eq!(woken, Subject::both(&web).map(Some));
    reconciler.reconcile(&key).await.expect("no failure");
    let patches = patches.lock().clone();
    assert_eq!(patches.len(), 1);
    let operations = patches[0].as_array().expect("operations");
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s",
        "controller": true, "blockOwnerDeletion": true});
    let adds = |each: &Value| each["op"] == "add" && each["value"] == json!([owner]);
    assert!(operations.iter().any(adds), "{operations:?}");
}

/// Each Event is a task, and the tenant of a StatefulSet may have tens of thousands of claims.
#[tokio::test]
async fn an_evaluation_publishes_a_limited_number_of_events() {
    let number = 3 * EVENTS_AT_ONCE;
    let claims = (1..=number).map(|ordinal| {
        let name = format!("data-web-{ordinal}");
        json!({"metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "1"}})
    });
    let world = World {
        sets: vec![following("Retain", "Delete")],
        claims: claims.collect(),
        cached: Vec::new(),
        listed: Vec::new(),
        unreadable: "",
    };
    let (reconciler, sent) = world.answering();
    let web = Subject::Policy(ObjectName::new("ns", "web"));
    for expected in [EVENTS_AT_ONCE, 2 * EVENTS_AT_ONCE, number, number] {
        let before = sent.lock().len();
        let requeue = reconciler.reconcile(&web).await.expect("no failure");
        let continues = matches!(requeue, Requeue::After(NEXT_EVENTS, _));
        assert_eq!(continues, before < 2 * EVENTS_AT_ONCE);
        let published = async {
            while sent.lock().len() < expected {
                tokio::task::yield_now().await;
            }
            // A further Event would be sent now.
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
        };
        let limit = Duration::from_secs(60);
        timeout(limit, published).await.expect("the Events");
        assert_eq!(sent.lock().len(), expected);
    }
}

/// The watch of pods may be late: a LIST must show that the pod of the removed ordinal does not
/// exist.
#[tokio::test(start_paused = true)]
async fn a_claim_is_not_deleted_before_its_pod_that_the_watch_lacks() {
    let mut scaled_down = following("Retain", "Delete");
    scaled_down["spec"]["replicas"] = 0.into();
    let mut marked = claim("1");
    marked["metadata"]["annotations"] = json!({"volume-warden.dev/scaled-with": "s"});
    for (listed, deletes) in [(vec![web_0()], 0), (vec![], 1)] {
        let world = World {
            sets: vec![scaled_down.clone()],
            claims: vec![marked.clone()],
            cached: Vec::new(),
            listed,
            unreadable: "",
        };
        let key = Subject::Policy(ObjectName::new("ns", "web"));
        let (settled, sent) = world.reconciled(key).await;
        assert_eq!(settled, deletes == 1, "{sent:?}");
        let deletions = sent
            .iter()
            .filter(|each| each.get("preconditions").is_some());
        assert_eq!(deletions.count(), deletes, "{sent:?}");
    }
}

/// The deletion of the claim of a removed ordinal waits for other writes, and meanwhile the watches
/// show that the StatefulSet was scaled up again, or a pod of that ordinal.
#[tokio::test(start_paused = true)]
async fn a_claim_is_not_deleted_that_is_needed_again_by_then() {
    let mut scaled_down = following("Retain", "Delete");
    scaled_down["spec"]["replicas"] = 0.into();
    let mut marked = claim("1");
    marked["metadata"]["annotations"] = json!({"volume-warden.dev/scaled-with": "s"});
    let scaled_up = following("Retain", "Delete");
    for (sets, pods, deletes) in [
        (vec![scaled_up], vec![], 0),
        (vec![], vec![web_0()], 0),
        (vec![], vec![], 1),
    ] {
        let world = World {
            sets: vec![scaled_down.clone()],
            claims: vec![marked.clone()],
            cached: Vec::new(),
            listed: Vec::new(),
            unreadable: "",
        };
        let (reconciler, sent) = world.answering();
        let web = ObjectName::new("ns", "web");
        let permit = reconciler.apply.lanes.permit(Lane::Bulk, &web.namespace);
        let permit = permit.await;
        let meanwhile = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            for set in sets {
                reconciler.caches.sets.deliver(read(set), true);
            }
            for pod in pods {
                reconciler.caches.pods.deliver(read(pod), true);
            }
            drop(permit);
        };
        let key = Subject::Policy(web.clone());
        let (reconciled, ()) = tokio::join!(reconciler.reconcile(&key), meanwhile);
        assert_eq!(reconciled.is_ok(), deletes == 1, "{reconciled:?}");
        let sent = sent.lock();
        let deletions = sent
            .iter()
            .filter(|each| each.get("preconditions").is_some());
        assert_eq!(deletions.count(), deletes, "{sent:?}");
    }
}

/// The pod of a removed ordinal is to become the owner of its claim, which waits for other writes.
/// Meanwhile, the watches show that the pod is deleted or replaced, or the StatefulSet was scaled up
/// again: the garbage collector would delete the claim of the next pod.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_by_then_does_not_become_the_owner() {
    let mut scaled_down = following("Retain", "Delete");
    scaled_down["spec"]["replicas"] = 0.into();
    let mut replaced = web_0();
    replaced["metadata"]["uid"] = "q".into();
    for (set, pod, writes) in [
        (None, None, 1),
        (None, Some((replaced, true)), 0),
        (None, Some((web_0(), false)), 0),
        (Some(following("Retain", "Delete")), None, 0),
    ] {
        let world = World {
            sets: vec![scaled_down.clone()],
            claims: vec![claim("1")],
            cached: vec![web_0()],
            listed: vec![web_0()],
            unreadable: "",
        };
        let (reconciler, sent) = world.answering();
        let web = ObjectName::new("ns", "web");
        let lanes = &reconciler.apply.lanes;
        let permit = lanes.permit(Lane::Ownership, &web.namespace).await;
        let meanwhile = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if let Some(set) = set {
                reconciler.caches.sets.deliver(read(set), true);
            }
            if let Some((pod, exists)) = pod {
                reconciler.caches.pods.deliver(read(pod), exists);
            }
            drop(permit);
        };
        let key = Subject::Policy(web.clone());
        let (reconciled, ()) = tokio::join!(reconciler.reconcile(&key), meanwhile);
        assert_eq!(reconciled.is_ok(), writes == 1, "{reconciled:?}");
        assert_eq!(sent.lock().len(), writes, "{:?}", sent.lock());
    }
}
