//! Tests of claims that a StatefulSet owns although its present policy keeps them.

use super::{
    health::{SETS, claim, pod, set, volume},
    *,
};

fn owner(uid: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid})
}

fn owned(name: &str, owners: &[Value]) -> Value {
    claim(&json!({"metadata": {"name": name, "ownerReferences": owners}}))
}

/// The StatefulSet `web` with the policy Retain, whose only pod is ready, and these claims.
fn complete(claims: Vec<Value>) -> Cluster {
    let cluster =
        Cluster::default()
            .with(SETS, set(&json!({})))
            .pod(pod("Running", "True", &json!([])));
    claims.into_iter().fold(cluster, Cluster::claim)
}

#[tokio::test]
async fn a_claim_that_the_set_owns_is_not_kept_with_it() {
    let pvc = Object::claim("shop", "data-web-0");
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a"});
    let (kept, deleted) = (Code::KeptByPolicy, Code::DeletedByPolicy);
    for (owners, code, fate) in [
        (vec![], kept, "is kept when the StatefulSet is deleted"),
        (
            vec![owner("earlier"), other.clone()],
            kept,
            "is kept when the StatefulSet is deleted",
        ),
        (
            vec![owner("s")],
            deleted,
            "is deleted with the StatefulSet, which owns it, although whenDeleted is Retain.",
        ),
        (
            vec![other, owner("s")],
            deleted,
            "is deleted once the StatefulSet, which owns it, and its other owners are deleted",
        ),
    ] {
        let cluster = complete(vec![owned("data-web-0", &owners)]);
        let cluster = cluster.volume(volume(&json!({})));
        let answer = cluster.explained(&pvc).await;
        assert_eq!(codes(&answer), [code], "{owners:?}");
        let sentence = &answer.root().expect("a root").sentence;
        assert!(sentence.contains(fate), "{sentence}");
        if code == deleted {
            let show = "kubectl get pvc data-web-0 -n shop -o yaml --show-managed-fields";
            assert_eq!(command(&answer), show);
        }
    }
}

/// The garbage collector removes only the reference to an owner that is gone, while others exist.
#[tokio::test]
async fn a_claim_with_other_owners_is_not_deleted_with_its_set_alone() {
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a"});
    let policy = json!({"spec": {"persistentVolumeClaimRetentionPolicy": {
        "whenDeleted": "Delete", "whenScaled": "Retain"}}});
    for (owners, fate) in [
        (vec![owner("s")], "is deleted with the StatefulSet (when"),
        (
            vec![owner("s"), other],
            "is deleted once neither the StatefulSet nor another owner of the claim exists (when",
        ),
    ] {
        let cluster = Cluster::default()
            .with(SETS, set(&policy))
            .pod(pod("Running", "True", &json!([])))
            .claim(owned("data-web-0", &owners))
            .volume(volume(&json!({})));
        let answer = cluster
            .explained(&Object::claim("shop", "data-web-0"))
            .await;
        let sentence = &answer.root().expect("a root").sentence;
        assert!(sentence.contains(fate), "{sentence}");
    }
}

/// The claims of pods that scaling down has removed keep the owner references of an earlier policy.
#[tokio::test]
async fn a_set_that_owns_claims_does_not_keep_them() {
    let scaled = "are kept when their pods are removed by scaling down";
    let kept = format!("Its claims are kept when the StatefulSet is deleted, and {scaled}");
    let despite = format!("although whenDeleted is Retain. Its claims {scaled}");
    let with = |ordinals: std::ops::Range<u32>, uid: &str| {
        let first = owned("data-web-0", &[]);
        let further = ordinals.map(|each| owned(&format!("data-web-{each}"), &[owner(uid)]));
        std::iter::once(first).chain(further).collect::<Vec<_>>()
    };
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a"});
    let shared = vec![owned("data-web-1", &[owner("s"), other])];
    for (claims, expected) in [
        (with(1..3, "earlier"), kept),
        (
            with(1..2, "s"),
            format!("It owns the claim data-web-1, so this claim is deleted with it, {despite}"),
        ),
        (
            with(1..6, "s"),
            format!(
                "It owns the claims data-web-1, data-web-2, data-web-3 and 2 more, so these claims are \
                 deleted with it, {despite}"
            ),
        ),
        (
            shared,
            format!(
                "It owns the claim data-web-1, so this claim is deleted with it and its other owners, {despite}"
            ),
        ),
    ] {
        let answer = complete(claims);
        let answer = answer.explained(&Object::stateful_set("shop", "web")).await;
        let expected = format!("complete: its only pod is ready. {expected}");
        assert_eq!(answer.state, expected);
    }
}

/// A policy does not show which claims the StatefulSet owns.
#[tokio::test]
async fn a_set_whose_claims_are_not_known_has_only_a_policy() {
    let unread = complete(Vec::new()).without("persistentvolumeclaims");
    let answer = unread.explained(&Object::stateful_set("shop", "web")).await;
    let policy = "Its retention policy is whenDeleted: Retain and whenScaled: Retain";
    let expected = format!("complete: its only pod is ready. {policy}");
    assert_eq!(answer.state, expected);
    assert!(!answer.is_certain(), "{answer:?}");
}
