use super::{
    health::{claim as data, volume},
    *,
};

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
}

/// The deletion of the claim deletes the volume too, so `why` prints for the volume what it prints
/// for the claim: how to save the data.
#[tokio::test]
async fn a_volume_that_is_deleted_under_its_claim_is_saved_first() {
    for (policy, said, first) in [
        (
            "Delete",
            "its data is deleted once the volume is Released.",
            "kubectl patch pv disk --type=json",
        ),
        (
            "Retain",
            "its storage stays when the volume is deleted with its claim.",
            "kubectl get pv disk -o yaml > disk.yaml",
        ),
    ] {
        let mut disk = disk("kubernetes.io/pv-protection", "c");
        disk["spec"]["persistentVolumeReclaimPolicy"] = json!(policy);
        disk["spec"]["claimRef"]["name"] = json!("data-web-0");
        let cluster = || {
            Cluster::default()
                .volume(disk.clone())
                .claim(data(&json!({})))
        };
        let of_volume = cluster().explained(&Object::volume("disk")).await;
        assert_eq!(codes(&of_volume), [Code::Bound]);
        let sentence = &of_volume.chain[0].sentence;
        assert!(sentence.ends_with(said), "{sentence}");
        assert!(command(&of_volume).starts_with(first), "{of_volume:?}");
        let of_claim = Object::claim("shop", "data-web-0");
        let of_claim = cluster().explained(&of_claim).await;
        assert_eq!(codes(&of_claim), [Code::VolumeDeleting]);
        assert_eq!(step(&of_volume), step(&of_claim));
    }
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

/// Without `claimRef`, Kubernetes binds the volume to any claim that it fits.
#[tokio::test]
async fn the_end_of_a_reservation_is_not_advised_without_its_consequence() {
    let small = json!({
        "spec": {"claimRef": {"uid": null}, "capacity": {"storage": "1Mi"}}, "status": {"phase": "Available"},
    });
    let pending = json!({"spec": {"volumeName": null}, "status": {"phase": "Pending"}});
    let cluster = Cluster::default().volume(volume(&small));
    let answer = cluster.claim(data(&pending));
    let answer = answer.explained(&Object::volume("disk")).await;
    assert_eq!(codes(&answer), [Code::NoMatchingVolume]);
    let said = "any claim that the volume fits may then get it, with the data on it";
    assert!(purpose(&answer).ends_with(said), "{}", purpose(&answer));
}
