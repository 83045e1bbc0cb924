//! Tests of volumes that are not given to a claim because another volume has the same data.

use super::{
    reuse::{FREE, HAND_OVER, attached, data, disk, parked},
    *,
};

/// Changes after which the volume has the CSI volume with this handle.
fn with_handle(handle: &str) -> Value {
    json!({"spec": {"csi": {"driver": "csi.example.com", "volumeHandle": handle}}})
}

/// The volume `disk` with the handle `one` and these changes, and the volume `copy` with this
/// handle.
fn cluster(changes: &Value, handle: &str) -> Cluster {
    let mut own = with_handle("one");
    json_patch::merge(&mut own, changes);
    let mut copy = with_handle(handle);
    copy["metadata"] = json!({"name": "copy"});
    copy["status"] = json!({"phase": "Bound"});
    let cluster = Cluster::default().volume(disk(&own)).volume(copy);
    attached(cluster, "another")
}

#[tokio::test]
async fn a_volume_is_not_freed_while_another_one_has_its_data() {
    let (volume, claim) = (Object::volume("disk"), Object::claim("shop", "data"));
    let named = || data("disk");
    for (handle, expected) in [("one", "kubectl describe pv copy"), ("two", FREE)] {
        let cluster = || cluster(&json!({}), handle).claim(named());
        for object in [&volume, &claim] {
            let answer = cluster().explained(object).await;
            assert_eq!(codes(&answer), [Code::ClaimReplaced], "{object}");
            assert_eq!(command(&answer), expected, "{object}");
        }
    }
    let answer = cluster(&json!({}), "one").explained(&volume).await;
    assert_eq!(codes(&answer), [Code::Retained]);
    assert_eq!(command(&answer), "kubectl describe pv copy");
    let sentence = &answer.chain[0].sentence;
    assert!(
        sentence.ends_with("The volume copy has the same data."),
        "{sentence}"
    );
}

#[tokio::test]
async fn a_parked_volume_is_not_handed_over_while_another_one_has_its_data() {
    for (handle, expected) in [("one", "kubectl describe pv copy"), ("two", HAND_OVER)] {
        let answer = cluster(&parked(), handle);
        let answer = answer.explained(&Object::volume("disk")).await;
        assert_eq!(codes(&answer), [Code::ParkedForDeletedNamespace]);
        assert_eq!(command(&answer), expected);
    }
}

/// A volume that cannot be parsed may have the same data.
#[tokio::test]
async fn a_volume_is_not_freed_while_the_other_volumes_are_not_known() {
    for changes in [json!({}), parked()] {
        let odd = json!({"metadata": {"name": "odd"}, "spec": {"capacity": 1}});
        let cluster = cluster(&changes, "two").volume(odd);
        let answer = cluster.explained(&Object::volume("disk")).await;
        assert_eq!(command(&answer), "kubectl get pv -o yaml");
        assert!(!answer.is_certain(), "{answer:?}");
    }
}
