//! Test cases STS-* of the specification that the stories do not cover: every policy under both pod
//! management policies, scale-downs that are reversed or happen while Volume Warden is not running,
//! pods and claims that users changed, and validation by the API server.

use super::stories::{
    Spec,
    Step::{self, *},
    Story, policy, replicas, run_story,
};
use super::support::{DELETE_DELETE, DELETE_RETAIN, Policy, RETAIN_DELETE, RETAIN_RETAIN, set};
use crate::support::{BINARY, bare, guarded, manifests, refusal, repository};
use anyhow::{Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::PersistentVolumeClaim};
use kube::{Api, ResourceExt, api::PostParams};
use serde_json::json;
use volume_warden_controlplane::{Cluster, Kubernetes, Warden, eventually};

/// Policies that keep the claims of a scale-down.
const RETAIN_ON_SCALE_DOWN: [Option<Policy>; 3] = [None, Some(RETAIN_RETAIN), Some(DELETE_RETAIN)];
/// Policies that delete the claims of a scale-down.
const DELETE_ON_SCALE_DOWN: [Option<Policy>; 2] = [Some(RETAIN_DELETE), Some(DELETE_DELETE)];

/// The policies of the sets of a story.
#[derive(Clone, Copy)]
struct Case {
    policy: Option<Policy>,
    pod_management: &'static str,
}

impl Case {
    /// Changes to a set: `number` replicas, and the policies of this case.
    fn spec(self, number: i32) -> Spec {
        let spec = replicas(number).policy(self.policy);
        spec.pod_management(self.pod_management)
    }

    /// Replaces `@` in `text` by the state of claims in range, and `~` by the state of claims that
    /// were never in range.
    fn claims(self, text: &str) -> String {
        let (in_range, never_in_range) = match self.policy {
            Some(RETAIN_DELETE) => (":mark", ""),
            Some(DELETE_DELETE) => (":set+mark", ":set"),
            Some(DELETE_RETAIN) => (":set", ":set"),
            _ => ("", ""),
        };
        text.replace('@', in_range).replace('~', never_in_range)
    }
}

/// Runs the steps for each of these policies under both pod management policies.
async fn run_each(
    label: &str,
    policies: &[Option<Policy>],
    steps: impl Fn(Case) -> Vec<Step<String>>,
) -> Result<()> {
    let cases = policies.iter().flat_map(|&policy| {
        ["OrderedReady", "Parallel"].map(|pod_management| Case {
            policy,
            pod_management,
        })
    });
    let stories = cases.map(|case| run_story(label, steps(case)));
    try_join_all(stories).await.map(drop)
}

/// STS-01, STS-13, STS-30, STS-38, STS-40, STS-41, STS-115..118: the claims have the state that the
/// policy requires after the creation of the set, a scale-up, and a scale-down to zero.
#[tokio::test]
async fn claims_follow_every_policy() -> Result<()> {
    let steps = |case: Case, after_scale_down: &str| {
        vec![
            Create("web", case.spec(3)),
            Claims("web", case.claims("0@ 1@ 2@")),
            PatchAndWait("web", replicas(4)),
            Claims("web", case.claims("0@ 1@ 2@ 3@")),
            Wait("pod/web-3 --for=jsonpath={.metadata.labels.apps\\.kubernetes\\.io/pod-index}=3"),
            Event("SuccessfulCreate", "web", "data-web-3"),
            PatchAndWait("web", replicas(0)),
            Event("SuccessfulDelete", "web", "web-3"),
            StableClaims("web", case.claims(after_scale_down)),
        ]
    };
    run_each("policies", &DELETE_ON_SCALE_DOWN, |case| steps(case, "")).await?;
    run_each("policies", &RETAIN_ON_SCALE_DOWN, |case| {
        steps(case, "0@ 1@ 2@ 3@")
    })
    .await
}

/// S5 and S6, with the same result for both pod management policies: if an ordinal is in range
/// again while its old pod still exists, the claim is kept. S4: if the set is scaled down while a
/// pod that a user deleted is still Terminating, the claim is deleted with the pod.
#[tokio::test]
async fn a_scale_down_is_reversed_in_time() -> Result<()> {
    let steps = |case: Case| {
        vec![
            Create("web", case.spec(3)),
            Claims("web", case.claims("0@ 1@ 2@")),
            AddFinalizer("pod/web-2"),
            Patch("web", replicas(2)),
            Wait("pod/web-2 --for=jsonpath={.metadata.deletionTimestamp}"),
            Claims("web", case.claims("0@ 1@ 2:pod+mark")),
            Patch("web", replicas(3)),
            Claims("web", case.claims("0@ 1@ 2@")),
            Replacing(&["web-2"], Box::new(RemoveFinalizer("pod/web-2"))),
            StableClaims("web", case.claims("0@ 1@ 2@")),
            AddFinalizer("pod/web-2"),
            Kubectl("delete pod web-2 --wait=false"),
            StableClaims("web", case.claims("0@ 1@ 2@")),
            Patch("web", replicas(2)),
            Claims("web", case.claims("0@ 1@ 2:pod+mark")),
            RemoveFinalizer("pod/web-2"),
            StableClaims("web", case.claims("0@ 1@")),
        ]
    };
    run_each("back", &DELETE_ON_SCALE_DOWN, steps).await
}

/// STS-42, STS-43, STS-44: Volume Warden does not write the claims of pods that are deleted,
/// evicted, deleted with `--force`, Failed, Succeeded or replaced by a rolling update.
#[tokio::test]
async fn no_claim_is_deleted_with_its_pod() -> Result<()> {
    for management in ["OrderedReady", "Parallel"] {
        let story = Story::new(guarded().await?, "pods").await?;
        let claims = "0:set+mark 1:set+mark 2:set+mark 3:set+mark 4:set+mark";
        let spec = replicas(5).policy(DELETE_DELETE).pod_management(management);
        story
            .run([Create("web", spec), StableClaims("web", claims)])
            .await?;
        let audit = story.sets.space.cluster.audit();
        let mark = audit.mark()?;
        let steps = [
            Replacing(&["web-1"], Box::new(Kubectl("delete pod web-1"))),
            Replacing(&["web-0"], Box::new(Evict("web-0"))),
            Replacing(
                &["web-0", "web-2", "web-4"],
                Box::new(Kubectl("delete pod web-0 web-2 web-4 --force")),
            ),
            Replacing(
                &["web-3"],
                Box::new(Kubectl(
                    r#"patch pod web-3 --subresource=status -p {"status":{"phase":"Failed"}}"#,
                )),
            ),
            Replacing(
                &["web-1"],
                Box::new(Kubectl(
                    r#"patch pod web-1 --subresource=status -p {"status":{"phase":"Succeeded"}}"#,
                )),
            ),
            Replacing(
                &["web-0", "web-1", "web-2", "web-3", "web-4"],
                Box::new(Kubectl("rollout restart sts web")),
            ),
            StableClaims("web", claims),
        ];
        story.run(steps).await?;
        let calls = audit.since(mark)?.by_user_agent("volume-warden/").writes();
        let is_of_story = |name: &str, namespace: &str| {
            name.starts_with("data-web-") && namespace == story.sets.space.name
        };
        // The last step waits for writes of Volume Warden to another claim of the namespace.
        let mut namespaces = calls.iter().map(|call| &call.namespace);
        ensure!(
            namespaces.any(|namespace| *namespace == story.sets.space.name),
            "the log has no write of Volume Warden: {calls:?}"
        );
        ensure!(
            !calls
                .iter()
                .any(|call| is_of_story(&call.name, &call.namespace)),
            "{calls:?}"
        );
    }
    Ok(())
}

/// A set is scaled down while Volume Warden is not running. The claims with the marker were in
/// range, and are deleted when Volume Warden runs again. The others are kept.
#[tokio::test]
async fn a_scale_down_while_volume_warden_is_not_running() -> Result<()> {
    let story = Story::new(bare().await?, "unseen").await?;
    let warden = story.sets.start_warden().await?;
    story
        .run([
            Create("web", replicas(3).policy(DELETE_DELETE)),
            Claims("web", "0:set+mark 1:set+mark 2:set+mark"),
        ])
        .await?;
    warden.process().kill()?;
    let steps = [
        PatchAndWait("web", replicas(1)),
        ClaimsNow("web", "0:set+mark 1:set+mark 2:set+mark"),
        Create("late", replicas(2).policy(RETAIN_DELETE)),
        PatchAndWait("late", replicas(1)),
        ClaimsNow("late", "0 1"),
    ];
    story.run(steps).await?;
    let _warden = story.sets.start_warden().await?;
    let steps = [
        StableClaims("web", "0:set+mark"),
        StableClaims("late", "0:mark 1"),
        Event("ScaledDownUnmarked", "late", "data-late-1"),
    ];
    story.run(steps).await
}

/// STS-55: the range begins at `spec.ordinals.start`, and changes with it.
#[tokio::test]
async fn ordinals_begin_at_the_start_ordinal() -> Result<()> {
    let steps = |case: Case| {
        vec![
            Create("web", case.spec(3).first_ordinal(2)),
            StableClaims("web", case.claims("2@ 3@ 4@")),
            PatchAndWait("web", replicas(2).first_ordinal(3)),
            StableClaims("web", case.claims("3@ 4@")),
            PatchAndWait("web", replicas(2).first_ordinal(0)),
            StableClaims("web", case.claims("0@ 1@")),
        ]
    };
    run_each("start", &DELETE_ON_SCALE_DOWN, steps).await
}

/// STS-17: claims that users create in advance get the owner reference, and in range the marker. A
/// scale-down deletes them only after they were in range.
#[tokio::test]
async fn claims_created_in_advance_are_deleted_only_after_they_were_in_range() -> Result<()> {
    let steps = |case: Case| {
        vec![
            CreateClaim("data-web-0"),
            CreateClaim("data-web-1"),
            CreateClaim("data-web-2"),
            Create("web", case.spec(2)),
            StableClaims("web", case.claims("0@ 1@ 2~")),
            Event("ScaledDownUnmarked", "web", "data-web-2"),
            PatchAndWait("web", replicas(1)),
            StableClaims("web", case.claims("0@ 2~")),
            PatchAndWait("web", replicas(3)),
            Claims("web", case.claims("0@ *1@ 2@")),
            PatchAndWait("web", replicas(2)),
            StableClaims("web", case.claims("0@ 1@")),
        ]
    };
    run_each("beforehand", &DELETE_ON_SCALE_DOWN, steps).await
}

/// STS-04, STS-36, STS-37: a claim that is being deleted blocks the creation of its pod. Volume
/// Warden reports the claim and does not change it.
#[tokio::test]
async fn a_claim_that_is_being_deleted_blocks_its_pod() -> Result<()> {
    let steps = |case: Case| {
        vec![
            Create("web", case.spec(3)),
            Claims("web", case.claims("0@ 1@ 2@")),
            AddFinalizer("pod/web-2"),
            AddFinalizer("pvc/data-web-2"),
            Patch("web", replicas(2)),
            Claims("web", case.claims("0@ 1@ 2:pod+mark")),
            RemoveFinalizer("pod/web-2"),
            Claims("web", case.claims("0@ 1@ 2:gone-pod+mark+Terminating")),
            Patch("web", replicas(3)),
            Event("PodBlockedByClaim", "web", "data-web-2"),
            StableClaims("web", case.claims("0@ 1@ 2:gone-pod+mark+Terminating")),
            Wait("sts/web --for=jsonpath={.status.replicas}=2"),
            RemoveFinalizer("pvc/data-web-2"),
            PatchAndWait("web", replicas(3)),
            Claims("web", case.claims("0@ 1@ *2@")),
        ]
    };
    run_each("stale", &DELETE_ON_SCALE_DOWN, steps).await
}

/// STS-51: the deleted claim of a pending pod is recreated with its owner reference and marker.
#[tokio::test]
async fn a_deleted_claim_of_a_pending_pod_is_recreated() -> Result<()> {
    let story = Story::new(guarded().await?, "pending").await?;
    let unschedulable =
        json!({"spec": {"template": {"spec": {"nodeName": null, "schedulerName": "absent"}}}});
    let web = set("web", 1, DELETE_DELETE, unschedulable)?;
    story.sets.sets.create(&PostParams::default(), &web).await?;
    story
        .run([
            StableClaims("web", "0:set+mark"),
            Kubectl("delete pvc data-web-0"),
        ])
        .await?;
    eventually("the claim is recreated", async || {
        // Only an event of the set or its pods triggers the StatefulSet controller.
        let change = json!({"metadata": {"annotations": {"example.com/awake": fastrand::u64(..).to_string()}}});
        story.sets.patch("web", change).await?;
        story.sets.claim("data-web-0").await.map(drop)
    })
    .await?;
    story.run([StableClaims("web", "*0:set+mark")]).await
}

/// STS-119, STS-120, STS-123: the API server refuses invalid policies. A changed or removed policy
/// applies to the claims.
#[tokio::test]
async fn policies_are_validated_changed_and_removed() -> Result<()> {
    let story = Story::new(guarded().await?, "validation").await?;
    for (policy, invalid_fields) in [(("Retain", "invalid"), 1), (("invalid", "invalid"), 2)] {
        let wanted = set("web", 1, policy, json!({}))?;
        let created = story
            .sets
            .sets
            .create(&PostParams::default(), &wanted)
            .await;
        let refusal = refusal(created)?;
        let found = refusal.matches("Unsupported value: \"invalid\"").count();
        assert_eq!(found, invalid_fields, "{refusal}");
    }
    let steps = [
        Create("web", replicas(1).policy(RETAIN_RETAIN)),
        StableClaims("web", "0"),
        PatchAndWait("web", policy(DELETE_DELETE)),
        Claims("web", "0:set+mark"),
        PatchAndWait("web", policy(None)),
        StableClaims("web", "0"),
        Wait(
            "sts/web --for=jsonpath={.spec.persistentVolumeClaimRetentionPolicy.whenScaled}=Retain",
        ),
    ];
    story.run(steps).await
}

/// STS-121, STS-122: if the API server drops the policy, Volume Warden adds no owner reference and
/// no annotation to the claims, and logs once that the policy is dropped.
#[tokio::test]
async fn no_claim_is_changed_where_the_api_server_drops_the_policy() -> Result<()> {
    let cluster = Cluster::without_in_tree()
        .name("dropping")
        .nodes(1)
        // The oldest version that can emulate such an API server.
        .kubernetes(Kubernetes::V1_34)
        .apiserver_arg("--emulated-version=1.31");
    let cluster = cluster
        .apiserver_arg("--feature-gates=StatefulSetAutoDeletePVC=false")
        .start()
        .await?;
    manifests::apply(&cluster, &repository().join("manifests")).await?;
    let sets: Api<StatefulSet> = Api::namespaced(cluster.client(), "default");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client(), "default");
    for name in ["one", "two"] {
        let wanted = set(name, 1, DELETE_DELETE, json!({}))?;
        let spec = sets
            .create(&PostParams::default(), &wanted)
            .await?
            .spec
            .unwrap_or_default();
        ensure!(
            spec.persistent_volume_claim_retention_policy.is_none(),
            "the API server kept the policy"
        );
    }
    // A ready Volume Warden has processed the list of both sets.
    let warden = Warden::builder(&cluster, BINARY).start().await?;
    let message = "drops spec.persistentVolumeClaimRetentionPolicy";
    assert_eq!(warden.process().log().matches(message).count(), 1);
    for name in ["one", "two"] {
        let claim = format!("data-{name}-0");
        let has_finalizer = async || anyhow::Ok(!claims.get(&claim).await?.finalizers().is_empty());
        eventually("Volume Warden added the finalizer", has_finalizer).await?;
        cluster.kubectl(&["delete", "sts", name]).await?;
    }
    let found = claims.list(&Default::default()).await?.items;
    let is_unchanged = |claim: &PersistentVolumeClaim| {
        claim.owner_references().is_empty() && claim.annotations().is_empty()
    };
    ensure!(
        found.len() == 2 && found.iter().all(is_unchanged),
        "{found:?}"
    );
    assert_eq!(warden.process().log().matches(message).count(), 1);
    cluster.stop().await;
    Ok(())
}
