use super::*;
use k8s_openapi::api::core::v1::Node;

/// Objects that exceed the limit of calls are reported as unread, and do not prevent the reads of
/// the other objects.
#[tokio::test]
async fn no_answer_takes_more_calls_than_the_limit() {
    let now = NOW.parse().expect("a time");
    let mut reads = LiveReads::new(Cluster::default().client(), now);
    let lookup = |reads: &LiveReads| -> Vec<Lookup<Arc<Node>>> {
        let names = (0..14).map(|index| format!("node-{index:02}"));
        names.map(|name| reads.get::<Node>("", &name)).collect()
    };
    assert!(
        lookup(&reads)
            .iter()
            .all(|lookup| *lookup == Lookup::Unread)
    );
    assert!(reads.read_requested().await);
    let lookups = lookup(&reads);
    let absent = lookups
        .iter()
        .filter(|lookup| **lookup == Lookup::Absent)
        .count();
    assert_eq!((absent, reads.calls()), (12, 12));
    assert!(!reads.read_requested().await, "nothing is requested twice");
    assert_eq!(
        reads.unread(),
        ["node-12", "node-13"].map(|name| format!(
            "nodes {name} could not be read: one answer makes at most 12 API calls"
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
        let reads = LiveReads::new(Cluster::default().client(), NOW.parse().expect("a time"));
        assert!(
            matches!(explain(&reads, &object), Lookup::Unread),
            "{object}"
        );
    }
}

/// A pod that cannot be parsed may be the one that holds the claim. It is read by its name, or with
/// all pods if many name the claim.
#[tokio::test]
async fn a_pod_that_cannot_be_parsed_is_reported() {
    let claim = json!({"metadata": {
        "name": "data", "namespace": "shop", "deletionTimestamp": "2026-01-01T00:10:00Z", "finalizers": ["kubernetes.io/pvc-protection"],
    }});
    let pod = |index: usize, claim: &str| {
        let (name, uid) = (format!("web-{index}"), index.to_string());
        json!({"metadata": {"name": name, "namespace": "shop", "uid": uid}, "status": {"podIP": 1}, "spec": {
            "containers": [], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        }})
    };
    let data = Object::claim("shop", "data");
    for (claims, expected) in [
        (vec!["data"], Some("pods shop/web-0 could not be read: ")),
        (vec!["data"; 3], Some("pods in shop could not be read: ")),
        (vec!["other"], None),
    ] {
        let mut cluster = Cluster::default().claim(claim.clone());
        for (index, claim) in claims.iter().enumerate() {
            cluster = cluster.pod(pod(index, claim));
        }
        let answer = cluster.explained(&data).await;
        let unread: Vec<&str> = answer.unread.iter().map(String::as_str).collect();
        match expected {
            Some(text) => {
                assert_eq!(codes(&answer), []);
                assert!(unread[0].starts_with(text), "{unread:?}");
            }
            None => {
                assert!(codes(&answer).contains(&Code::NotInUse));
                assert_eq!(unread, [""; 0]);
            }
        }
    }
}

/// Many users of a claim are read by a LIST, of which only these users are parsed.
#[tokio::test]
async fn a_pod_of_another_claim_need_not_be_parsed() {
    let claim = json!({"metadata": {
        "name": "data", "namespace": "shop", "deletionTimestamp": "2026-01-01T00:10:00Z", "finalizers": ["kubernetes.io/pvc-protection"],
    }});
    let mut cluster = Cluster::default().claim(claim);
    for (name, claim, address) in [
        ("a", "data", json!("")),
        ("b", "data", json!("")),
        ("c", "data", json!("")),
        ("d", "other", json!(1)),
    ] {
        cluster = cluster.pod(json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name}, "status": {"podIP": address},
            "spec": {"nodeName": "n1", "containers": [], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]},
        }));
    }
    let answer = cluster.explained(&Object::claim("shop", "data")).await;
    assert_eq!(answer.unread, [""; 0]);
    assert!(!codes(&answer).is_empty());
}
