//! Tests of volumes whose policy may have become Retain after they were released.

use super::{
    reuse::{DESCRIBE, attached, disk},
    *,
};
use crate::objects::managed_by::RELEASER_LABEL;

const SENTENCE: &str = "its data is kept until an administrator decides.";

/// Changes after which the policy of the volume was written in this second of 00:30, and the volume
/// was released in that second. A time that is none is not known.
fn times(created: Option<u32>, written: Option<u32>, released: Option<u32>) -> Value {
    let time = |second: Option<u32>| second.map(|second| format!("2026-01-01T00:30:{second:02}Z"));
    json!({
        "metadata": {"creationTimestamp": time(created), "managedFields": [{
            "manager": "client", "operation": "Update", "time": time(written),
            "fieldsV1": {"f:spec": {"f:persistentVolumeReclaimPolicy": {}}},
        }]},
        "status": {"lastPhaseTransitionTime": time(released)},
    })
}

async fn answer(changes: &Value) -> Answer {
    let cluster = attached(Cluster::default().volume(disk(changes)), "another");
    cluster.explained(&Object::volume("disk")).await
}

#[tokio::test]
async fn a_volume_is_freed_if_its_policy_was_retain_at_its_release() {
    for changes in [
        times(None, Some(1), Some(2)),
        times(Some(0), Some(1), Some(2)),
        // The policy is that of the creation: no client has changed it.
        times(Some(1), Some(1), Some(1)),
        times(Some(1), Some(1), None),
        // The API server sets creationTimestamp after the time of the fields.
        times(Some(2), Some(1), None),
    ] {
        let answer = answer(&changes).await;
        assert_eq!(codes(&answer), [Code::Retained]);
        assert!(answer.chain[0].sentence.contains(SENTENCE), "{answer:?}");
        let command = command(&answer);
        assert!(command.contains("/spec/claimRef"), "{changes}: {command}");
    }
}

/// The driver may have begun to delete the data before the policy became Retain.
#[tokio::test]
async fn a_volume_is_not_freed_if_its_policy_may_have_changed_after_its_release() {
    let at = |second| {
        format!(
            "The client that wrote the volume's policy Retain last changed the volume at \
             2026-01-01T00:30:{second:02}Z, not before the volume was Released: if it wrote the policy then, the data may \
             be deleted already."
        )
    };
    let unknown = "It is not known whether the volume's policy was Retain when the volume was Released: \
                   if not, its data may be deleted already.";
    let no_fields = json!({"metadata": {"managedFields": null}});
    for (changes, why) in [
        (times(None, Some(3), Some(2)), at(3)),
        (times(Some(0), Some(2), Some(2)), at(2)),
        (times(Some(0), Some(1), None), unknown.to_owned()),
        (times(Some(0), None, Some(2)), unknown.to_owned()),
        (no_fields, unknown.to_owned()),
    ] {
        let mut labelled = changes.clone();
        labelled["metadata"]["labels"] = json!({RELEASER_LABEL: "one"});
        for changes in [changes, labelled] {
            let answer = answer(&changes).await;
            assert_eq!(command(&answer), DESCRIBE, "{changes}");
            let sentence = &answer.root().expect("a root").sentence;
            assert!(!sentence.contains("data is kept"), "{sentence}");
            assert!(sentence.ends_with(&why), "{sentence}");
        }
    }
}
