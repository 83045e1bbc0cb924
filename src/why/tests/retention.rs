//! Tests of what `why` says about claims whose ordinal is out of the range of their StatefulSet.

use super::{
    health::{SETS, claim, merged, set, volume},
    *,
};

const GONE: &str = "The StatefulSet web has no pod 2 any more. The claim was kept when that pod was \
                    removed by scaling down, and is ";
const OUT_OF_RANGE: &str = "The ordinal 2 of the StatefulSet web is out of range. The claim is ";
const NOT_OWNED: &str = "kept, because the StatefulSet does not own it.";
const WITH_SET: &str = "deleted with the StatefulSet, which owns it.";

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid})
}

/// The pod `web-2`, with the uid `p`, of the StatefulSet with this uid. It is being deleted.
fn pod(set: &str) -> Value {
    let owner = merged(
        owner("apps/v1", "StatefulSet", "web", set),
        &json!({"controller": true}),
    );
    json!({
        "metadata": {
            "name": "web-2", "namespace": "shop", "uid": "p", "ownerReferences": [owner],
            "deletionTimestamp": "2026-01-01T00:59:50Z",
        },
        "spec": {"nodeName": "node", "containers": []}, "status": {"phase": "Running"},
    })
}

/// The StatefulSet `web` with one replica, and the claim of its ordinal 2 with these owners.
fn scaled_down(owners: &[Value], pod: Option<Value>, when_scaled: &str) -> Cluster {
    let name = json!({"metadata": {"name": "data-web-2", "ownerReferences": owners}});
    let policy =
        json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": when_scaled}}});
    let cluster = Cluster::default()
        .claim(claim(&name))
        .volume(volume(
            &json!({"spec": {"claimRef": {"name": "data-web-2"}}}),
        ))
        .with(SETS, set(&policy));
    match pod {
        Some(pod) => cluster.pod(pod),
        None => cluster,
    }
}

#[tokio::test]
async fn a_claim_out_of_range_is_explained_by_its_owners_and_its_pod() {
    let pvc = Object::claim("shop", "data-web-2");
    let by_pod = || owner("v1", "Pod", "web-2", "p");
    let by_set = || owner("apps/v1", "StatefulSet", "web", "s");
    let earlier = || owner("apps/v1", "StatefulSet", "web", "earlier");
    let other = || owner("v1", "ConfigMap", "a", "a");
    let (deleted, kept) = (Code::DeletedByPolicy, Code::KeptByPolicy);
    let after_pod = "deleted after its pod web-2, which owns it.";
    let after_all = "deleted after its pod web-2 and its other owners.";
    let soon = "deleted after its pod web-2, once that pod owns it (whenScaled: Delete).";
    for (owners, of_set, when_scaled, code, start, fate) in [
        (
            vec![by_pod()],
            Some("s"),
            "Delete",
            deleted,
            OUT_OF_RANGE,
            after_pod,
        ),
        (
            vec![by_pod(), other()],
            Some("s"),
            "Delete",
            deleted,
            OUT_OF_RANGE,
            after_all,
        ),
        (
            vec![by_pod(), other()],
            None,
            "Delete",
            kept,
            GONE,
            NOT_OWNED,
        ),
        (vec![], Some("s"), "Delete", deleted, OUT_OF_RANGE, soon),
        (
            vec![by_set()],
            Some("s"),
            "Delete",
            deleted,
            OUT_OF_RANGE,
            soon,
        ),
        (
            vec![other()],
            Some("s"),
            "Delete",
            kept,
            OUT_OF_RANGE,
            NOT_OWNED,
        ),
        (
            vec![],
            Some("another"),
            "Delete",
            kept,
            OUT_OF_RANGE,
            NOT_OWNED,
        ),
        (vec![], Some("s"), "Retain", kept, OUT_OF_RANGE, NOT_OWNED),
        (
            vec![by_set()],
            Some("s"),
            "Retain",
            deleted,
            OUT_OF_RANGE,
            WITH_SET,
        ),
        (vec![], None, "Delete", kept, GONE, NOT_OWNED),
        (vec![by_set()], None, "Delete", deleted, GONE, WITH_SET),
        (
            vec![earlier(), other()],
            None,
            "Delete",
            kept,
            GONE,
            NOT_OWNED,
        ),
    ] {
        let case = format!("{owners:?} {of_set:?} {when_scaled}");
        let cluster = scaled_down(&owners, of_set.map(pod), when_scaled);
        let answer = cluster.explained(&pvc).await;
        assert_eq!(codes(&answer), [code], "{case}");
        let sentence = &answer.root().expect("a root").sentence;
        assert_eq!(*sentence, format!("{start}{fate}"), "{case}");
    }
}

/// The claim `a-b-c-0` can be that of the template `a` of the StatefulSet `b-c`, and that of the
/// template `a-b` of the StatefulSet `c`.
#[tokio::test]
async fn a_claim_belongs_to_the_set_that_owns_it_or_whose_labels_it_has() {
    let of = |name: &str, template: &str, deleted: &str| {
        set(&json!({
            "metadata": {"name": name, "uid": name},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "volumeClaimTemplates": [{"metadata": {"name": template}}],
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": deleted},
            },
        }))
    };
    let by = |set: &str| json!([owner("apps/v1", "StatefulSet", set, set)]);
    let (kept, deleted) = (Code::KeptByPolicy, Code::DeletedByPolicy);
    for (owners, labels, expected) in [
        (by("c"), json!({}), vec![deleted]),
        (by("c"), json!({"app": "b-c"}), vec![deleted]),
        (json!([]), json!({"app": "c"}), vec![deleted]),
        (json!([]), json!({"app": "b-c"}), vec![kept]),
        (json!([]), json!({}), vec![]),
    ] {
        let metadata = json!({"name": "a-b-c-0", "ownerReferences": owners, "labels": labels});
        let named = json!({"spec": {"claimRef": {"name": "a-b-c-0"}}});
        let cluster = Cluster::default()
            .claim(claim(&json!({"metadata": metadata})))
            .volume(volume(&named))
            .with(SETS, of("b-c", "a", "Retain"))
            .with(SETS, of("c", "a-b", "Delete"));
        let answer = cluster.explained(&Object::claim("shop", "a-b-c-0")).await;
        assert_eq!(codes(&answer), expected, "{metadata}");
    }
}

/// It is not known whether a pod that could not be read exists.
#[tokio::test]
async fn a_pod_is_missing_only_if_the_api_server_says_so() {
    let pvc = Object::claim("shop", "data-web-2");
    let unread = scaled_down(&[], None, "Retain").without("pods");
    let answer = unread.explained(&pvc).await;
    let sentence = &answer.root().expect("a root").sentence;
    assert_eq!(*sentence, format!("{OUT_OF_RANGE}{NOT_OWNED}"));
}
