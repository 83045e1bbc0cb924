use super::*;

fn disk(finalizer: &str, uid: &str) -> Value {
    json!({
        "metadata": {"name": "disk", "deletionTimestamp": "2026-01-01T00:10:00Z", "finalizers": [finalizer]},
        "spec": {"claimRef": {"namespace": "shop", "name": "data", "uid": uid}}, "status": {"phase": "Bound"},
    })
}

fn claim(uid: &str) -> Value {
    json!({"metadata": {"name": "data", "namespace": "shop", "uid": uid}, "status": {"phase": "Bound"}})
}

/// The claim with the name in `claimRef` is a new claim: deleting it would not release the volume,
/// and would lose the data of the new claim.
#[tokio::test]
async fn a_volume_whose_claim_was_recreated() {
    let bound = || Cluster::default().volume(disk("kubernetes.io/pv-protection", "old"));
    let object = Object::volume("disk");
    for cluster in [bound().claim(claim("new")), bound()] {
        let answer = cluster.explained(&object).await;
        assert_eq!(codes(&answer), [Code::Bound]);
        let lease = "kubectl describe lease kube-controller-manager -n kube-system";
        assert_eq!(command(&answer), lease);
    }
    let answer = bound().claim(claim("old")).explained(&object).await;
    assert_eq!(command(&answer), "kubectl delete pvc data -n shop");
}

/// If VolumeAttachments may not be read, the volume does not count as detached.
#[tokio::test]
async fn a_volume_whose_attachments_are_not_known() {
    let attacher = disk("external-attacher/csi-example-com", "old");
    let cluster = || Cluster::default().volume(attacher.clone());
    let object = Object::volume("disk");
    let detached = cluster().explained(&object).await;
    assert!(
        detached.chain[0].next
            != Next::Nothing {
                meanwhile: String::new()
            }
    );
    let unread = cluster().without("volumeattachments").explained(&object);
    let unread = unread.await;
    assert_eq!(codes(&unread), [Code::ForeignFinalizer]);
    assert_eq!(
        unread.unread,
        ["volumeattachments could not be read: not for you"]
    );
    assert_ne!(unread.root(), detached.root());
}
