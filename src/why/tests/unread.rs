use super::*;
use k8s_openapi::api::core::v1::Node;

/// Objects that exceed the limit of calls are reported as unread, and do not prevent the reads of
/// the other objects.
#[tokio::test]
async fn no_answer_takes_more_than_eight_calls() {
    let now = NOW.parse().expect("a time");
    let mut world = World::new(Cluster::default().client(), now);
    let look = |world: &World| -> Vec<Look<Arc<Node>>> {
        let names = (0..10).map(|index| format!("node-{index}"));
        names.map(|name| world.get::<Node>("", &name)).collect()
    };
    assert!(look(&world).iter().all(|look| *look == Look::Unread));
    assert!(world.fulfil().await);
    let looks = look(&world);
    let absent = looks.iter().filter(|look| **look == Look::Absent).count();
    assert_eq!((absent, world.calls()), (8, 8));
    assert!(!world.fulfil().await, "nothing is requested twice");
    assert_eq!(
        world.unread(),
        ["node-8", "node-9"].map(|name| format!(
            "nodes {name} could not be read: one answer makes at most 8 API calls"
        ))
    );
}

/// Nothing is concluded from objects that could not be read. These objects are reported.
#[tokio::test]
async fn what_may_not_be_read_is_reported() {
    let claim = json!({"metadata": {
        "name": "data", "namespace": "shop", "deletionTimestamp": "2026-01-01T00:10:00Z", "finalizers": ["kubernetes.io/pvc-protection"],
    }});
    let cluster = || Cluster::default().claim(claim.clone());
    let data = Object::claim("shop", "data");
    let answer = cluster().without("pods").explained(&data).await;
    assert_eq!(codes(&answer), []);
    assert_eq!(
        answer.unread,
        ["pods in shop could not be read: not for you"]
    );
    let answer = cluster().without("leases").explained(&data).await;
    assert_eq!(codes(&answer), [Code::NotInUse]);
    assert_eq!(answer.unread, ["leases could not be read: not for you"]);
    let explanation = cluster()
        .without("persistentvolumeclaims")
        .explain(&data)
        .await;
    let sentence = "persistentvolumeclaims shop/data could not be read: not for you";
    assert_eq!(explanation, Explanation::Unread(vec![sentence.to_owned()]));
    let other = Object::claim("shop", "other");
    assert_eq!(cluster().explain(&other).await, Explanation::NotFound);
}

/// `why` for an object that may not be read does not say that it does not exist, whatever its kind
/// is.
#[tokio::test]
async fn an_object_that_may_not_be_read_is_not_taken_for_absent() {
    for (object, resource) in [
        (Object::claim("shop", "x"), "persistentvolumeclaims"),
        (Object::volume("x"), "persistentvolumes"),
        (Object::pod("shop", "x"), "pods"),
        (Object::stateful_set("shop", "x"), "statefulsets"),
        (Object::namespace("x"), "namespaces"),
    ] {
        let explanation = Cluster::default().explain(&object).await;
        assert_eq!(explanation, Explanation::NotFound, "{object}");
        let explanation = Cluster::default().without(resource).explain(&object).await;
        assert!(
            matches!(explanation, Explanation::Unread(_)),
            "{object}: {explanation:?}"
        );
        let world = World::new(Cluster::default().client(), NOW.parse().expect("a time"));
        assert!(matches!(explain(&world, &object), Look::Unread), "{object}");
    }
}

/// A pod that cannot be parsed may be the one that holds the claim.
#[tokio::test]
async fn a_pod_that_cannot_be_parsed_is_reported() {
    let claim = json!({"metadata": {
        "name": "data", "namespace": "shop", "deletionTimestamp": "2026-01-01T00:10:00Z", "finalizers": ["kubernetes.io/pvc-protection"],
    }});
    let pod = |claim: &str| {
        json!({"metadata": {"name": "web", "namespace": "shop"}, "status": {"podIP": 1}, "spec": {
            "containers": [], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        }})
    };
    let cluster = |named: &str| Cluster::default().claim(claim.clone()).pod(pod(named));
    let data = Object::claim("shop", "data");
    let answer = cluster("data").explained(&data).await;
    assert_eq!(codes(&answer), []);
    assert!(
        answer.unread[0].starts_with("pods in shop could not be read: "),
        "{:?}",
        answer.unread
    );
    let answer = cluster("other").explained(&data).await;
    assert!(codes(&answer).contains(&Code::NotInUse));
    assert_eq!(answer.unread, [""; 0]);
}
