//! Tests of names that an object quotes and that no object can have. The API server accepts any
//! text in references to claims, ConfigMaps and owners.

use super::{
    pods_mounting::{EVENTS, event, pod, web},
    *,
};
use parking_lot::Mutex;

/// Explains the object, and returns the answer and the paths of all requests.
async fn explained(cluster: Cluster, object: &Object) -> (Answer, Vec<String>) {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let seen = paths.clone();
    let client = answering(move |head, _| {
        seen.lock().push(head.uri.to_string());
        cluster.answer(&head.uri)
    });
    let explanation = explain_live(client, object, NOW.parse().expect("a time")).await;
    let Explanation::Explained(answer) = explanation else {
        panic!("{explanation:?}")
    };
    let paths = paths.lock().clone();
    (answer, paths)
}

/// An administrator's request to this path would be forwarded to the pod.
#[tokio::test]
async fn the_name_of_an_owner_selects_no_proxy() {
    let owner = json!({
        "apiVersion": "v1", "kind": "Pod", "name": "web-0/proxy/admin/flush?all=1", "uid": "o",
    });
    let claim =
        json!({"metadata": {"name": "data", "namespace": "shop", "ownerReferences": [owner]}});
    let cluster = Cluster::default().claim(claim);
    let (answer, paths) = explained(cluster, &Object::claim("shop", "data")).await;
    assert_eq!(codes(&answer), [Code::DeadOwner]);
    assert!(!paths.is_empty());
    assert!(
        paths.iter().all(|path| !path.contains("/proxy/")),
        "{paths:?}"
    );
}

#[tokio::test]
async fn a_claim_with_a_name_that_no_claim_can_have_is_missing() {
    let exists = json!({"metadata": {"name": "data", "namespace": "shop"}});
    for name in ["data/status", "data ", "Data", "../../secrets/data"] {
        let pending = pod("web", "p2", "", &[name], json!({"phase": "Pending"}));
        let cluster = Cluster::default().claim(exists.clone()).pod(pending);
        let (answer, paths) = explained(cluster, &web()).await;
        assert_eq!(codes(&answer), [Code::ClaimMissing], "{name}");
        assert_eq!(answer.unread, [""; 0], "{name}");
        assert_eq!(paths.len(), 1, "{paths:?}");
    }
}

#[tokio::test]
async fn a_config_map_with_a_name_that_none_can_have_is_missing() {
    let mut creating = pod("web", "p2", "n2", &[], json!({"phase": "Pending"}));
    creating["spec"]["volumes"] = json!([{"name": "all", "configMap": {"name": "a/b"}}]);
    let mut failed = event("FailedMount", "p2", 50);
    failed["message"] = json!("MountVolume.SetUp failed for volume \"all\" : no");
    let cluster = Cluster::default().pod(creating).with(EVENTS, failed);
    let (answer, paths) = explained(cluster, &web()).await;
    assert_eq!(codes(&answer), [Code::NotMounted, Code::ConfigMissing]);
    assert!(
        paths.iter().all(|path| !path.contains("configmaps")),
        "{paths:?}"
    );
}
