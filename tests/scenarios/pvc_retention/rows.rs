//! Rows STS-* of upstream's tables that the stories do not cover: every policy under both pod
//! management policies, scale-downs that are reversed or happen while Volume Warden is down, pods
//! and claims that users changed, and validation by the API server.

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

const RETAINED: [Option<Policy>; 3] = [None, Some(RETAIN_RETAIN), Some(DELETE_RETAIN)];
const SCALED: [Option<Policy>; 2] = [Some(RETAIN_DELETE), Some(DELETE_DELETE)];

/// What the sets of a story have in common.
#[derive(Clone, Copy)]
struct Case {
    policy: Option<Policy>,
    pod_management: &'static str,
}

impl Case {
    fn spec(self, number: i32) -> Spec {
        let spec = replicas(number).policy(self.policy);
        spec.pod_management(self.pod_management)
    }

    /// `@` is the state of claims in range, `~` that of claims that were never in range.
    fn claims(self, text: &str) -> String {
        let (in_range, never) = match self.policy {
            Some(RETAIN_DELETE) => (":mark", ""),
            Some(DELETE_DELETE) => (":set+mark", ":set"),
            Some(DELETE_RETAIN) => (":set", ":set"),
            _ => ("", ""),
        };
        text.replace('@', in_range).replace('~', never)
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

/// STS-01, STS-13, STS-30, STS-38, STS-40, STS-41, STS-115..118.
#[tokio::test]
async fn claims_follow_every_policy() -> Result<()> {
    let steps = |case: Case, end: &str| {
        vec![
            Create("web", case.spec(3)),
            Claims("web", case.claims("0@ 1@ 2@")),
            Turn("web", replicas(4)),
            Claims("web", case.claims("0@ 1@ 2@ 3@")),
            Wait("pod/web-3 --for=jsonpath={.metadata.labels.apps\\.kubernetes\\.io/pod-index}=3"),
            Event("SuccessfulCreate", "web", "data-web-3"),
            Turn("web", replicas(0)),
            Event("SuccessfulDelete", "web", "web-3"),
            Rest("web", case.claims(end)),
        ]
    };
    run_each("policies", &SCALED, |case| steps(case, "")).await?;
    run_each("policies", &RETAINED, |case| steps(case, "0@ 1@ 2@ 3@")).await
}

/// S5 and S6, the same for both pod management policies: in range again while the old pod still
/// exists. S4: the claim of a pod that a user deleted is deleted with it if the set is scaled down
/// before the pod is gone.
#[tokio::test]
async fn a_scale_down_is_reversed_in_time() -> Result<()> {
    let steps = |case: Case| {
        vec![
            Create("web", case.spec(3)),
            Claims("web", case.claims("0@ 1@ 2@")),
            Hold("pod/web-2"),
            Ask("web", replicas(2)),
            Wait("pod/web-2 --for=jsonpath={.metadata.deletionTimestamp}"),
            Claims("web", case.claims("0@ 1@ 2:pod+mark")),
            Ask("web", replicas(3)),
            Claims("web", case.claims("0@ 1@ 2@")),
            Replacing(&["web-2"], Box::new(Free("pod/web-2"))),
            Rest("web", case.claims("0@ 1@ 2@")),
            Hold("pod/web-2"),
            Kubectl("delete pod web-2 --wait=false"),
            Rest("web", case.claims("0@ 1@ 2@")),
            Ask("web", replicas(2)),
            Claims("web", case.claims("0@ 1@ 2:pod+mark")),
            Free("pod/web-2"),
            Rest("web", case.claims("0@ 1@")),
        ]
    };
    run_each("back", &SCALED, steps).await
}

/// STS-42, STS-43, STS-44: pods deleted, evicted, lost, failed, succeeded, updated. Their claims
/// are not written.
#[tokio::test]
async fn no_claim_is_deleted_with_its_pod() -> Result<()> {
    for management in ["OrderedReady", "Parallel"] {
        let story = Story::new(guarded().await?, "pods").await?;
        let claims = "0:set+mark 1:set+mark 2:set+mark 3:set+mark 4:set+mark";
        let spec = replicas(5).policy(DELETE_DELETE).pod_management(management);
        story
            .run([Create("web", spec), Rest("web", claims)])
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
            Rest("web", claims),
        ];
        story.run(steps).await?;
        let calls = audit.since(mark)?.by_user_agent("volume-warden/").writes();
        let here = |name: &str, space: &str| {
            name.starts_with("data-web-") && space == story.sets.space.name
        };
        ensure!(
            !calls.iter().any(|call| here(&call.name, &call.namespace)),
            "{calls:?}"
        );
    }
    Ok(())
}

/// Scaled down while Volume Warden is down: claims with the mark were in range and are deleted,
/// the others are kept.
#[tokio::test]
async fn a_scale_down_while_volume_warden_is_down() -> Result<()> {
    let story = Story::new(bare().await?, "unseen").await?;
    let warden = story.sets.own_warden().await?;
    story
        .run([
            Create("web", replicas(3).policy(DELETE_DELETE)),
            Claims("web", "0:set+mark 1:set+mark 2:set+mark"),
        ])
        .await?;
    warden.process().kill()?;
    let steps = [
        Turn("web", replicas(1)),
        Now("web", "0:set+mark 1:set+mark 2:set+mark"),
        Create("late", replicas(2).policy(RETAIN_DELETE)),
        Turn("late", replicas(1)),
        Now("late", "0 1"),
    ];
    story.run(steps).await?;
    let _warden = story.sets.own_warden().await?;
    let steps = [
        Rest("web", "0:set+mark"),
        Rest("late", "0:mark 1"),
        Event("ScaledDownUnmarked", "late", "data-late-1"),
    ];
    story.run(steps).await
}

/// STS-55: the range begins at `spec.ordinals.start`, and moves with it.
#[tokio::test]
async fn ordinals_begin_at_the_start_ordinal() -> Result<()> {
    let steps = |case: Case| {
        vec![
            Create("web", case.spec(3).first_ordinal(2)),
            Rest("web", case.claims("2@ 3@ 4@")),
            Turn("web", replicas(2).first_ordinal(3)),
            Rest("web", case.claims("3@ 4@")),
            Turn("web", replicas(2).first_ordinal(0)),
            Rest("web", case.claims("0@ 1@")),
        ]
    };
    run_each("start", &SCALED, steps).await
}

/// STS-17: claims that users created beforehand get reference and mark, and are deleted only after
/// they were in range.
#[tokio::test]
async fn claims_made_beforehand_wait_for_their_ordinal() -> Result<()> {
    let steps = |case: Case| {
        vec![
            CreateClaim("data-web-0"),
            CreateClaim("data-web-1"),
            CreateClaim("data-web-2"),
            Create("web", case.spec(2)),
            Rest("web", case.claims("0@ 1@ 2~")),
            Event("ScaledDownUnmarked", "web", "data-web-2"),
            Turn("web", replicas(1)),
            Rest("web", case.claims("0@ 2~")),
            Turn("web", replicas(3)),
            Claims("web", case.claims("0@ *1@ 2@")),
            Turn("web", replicas(2)),
            Rest("web", case.claims("0@ 1@")),
        ]
    };
    run_each("beforehand", &SCALED, steps).await
}

/// STS-04, STS-36, STS-37: a claim that is being deleted blocks the creation of its pod. The claim
/// is reported and not changed.
#[tokio::test]
async fn a_stale_claim_is_waited_for() -> Result<()> {
    let steps = |case: Case| {
        vec![
            Create("web", case.spec(3)),
            Claims("web", case.claims("0@ 1@ 2@")),
            Hold("pod/web-2"),
            Hold("pvc/data-web-2"),
            Ask("web", replicas(2)),
            Claims("web", case.claims("0@ 1@ 2:pod+mark")),
            Free("pod/web-2"),
            Claims("web", case.claims("0@ 1@ 2:gone-pod+mark+Terminating")),
            Ask("web", replicas(3)),
            Event("PodBlockedByClaim", "web", "data-web-2"),
            Rest("web", case.claims("0@ 1@ 2:gone-pod+mark+Terminating")),
            Wait("sts/web --for=jsonpath={.status.replicas}=2"),
            Free("pvc/data-web-2"),
            Turn("web", replicas(3)),
            Claims("web", case.claims("0@ 1@ *2@")),
        ]
    };
    run_each("stale", &SCALED, steps).await
}

/// STS-51: the deleted claim of a pending pod is recreated with its reference and mark.
#[tokio::test]
async fn a_lost_claim_of_a_pending_pod_is_recreated() -> Result<()> {
    let story = Story::new(guarded().await?, "pending").await?;
    let nowhere =
        json!({"spec": {"template": {"spec": {"nodeName": null, "schedulerName": "absent"}}}});
    let web = set("web", 1, DELETE_DELETE, nowhere)?;
    story.sets.sets.create(&PostParams::default(), &web).await?;
    story
        .run([Rest("web", "0:set+mark"), Kubectl("delete pvc data-web-0")])
        .await?;
    eventually("the claim is recreated", async || {
        // Only an event of the set or its pods triggers the StatefulSet controller.
        let awake = json!({"metadata": {"annotations": {"example.com/awake": fastrand::u64(..).to_string()}}});
        story.sets.patch("web", awake).await?;
        story.sets.claim("data-web-0").await.map(drop)
    })
    .await?;
    story.run([Rest("web", "*0:set+mark")]).await
}

/// STS-119, STS-120, STS-123: validation of policies by the API server, and the effects of
/// changing and removing a policy.
#[tokio::test]
async fn policies_are_validated_changed_and_removed() -> Result<()> {
    let story = Story::new(guarded().await?, "validation").await?;
    for (policy, wrong) in [(("Retain", "invalid"), 1), (("invalid", "invalid"), 2)] {
        let wanted = set("web", 1, policy, json!({}))?;
        let created = story
            .sets
            .sets
            .create(&PostParams::default(), &wanted)
            .await;
        let refusal = refusal(created)?;
        let found = refusal.matches("Unsupported value: \"invalid\"").count();
        assert_eq!(found, wrong, "{refusal}");
    }
    let steps = [
        Create("web", replicas(1).policy(RETAIN_RETAIN)),
        Rest("web", "0"),
        Turn("web", policy(DELETE_DELETE)),
        Claims("web", "0:set+mark"),
        Turn("web", policy(None)),
        Rest("web", "0"),
        Wait(
            "sts/web --for=jsonpath={.spec.persistentVolumeClaimRetentionPolicy.whenScaled}=Retain",
        ),
    ];
    story.run(steps).await
}

/// STS-121, STS-122: where the API server drops the policy, Volume Warden writes nothing and logs
/// it once.
#[tokio::test]
async fn without_the_field_nothing_is_done() -> Result<()> {
    let cluster = Cluster::without_in_tree()
        .name("dropping")
        .nodes(1)
        // The oldest that can emulate such an API server.
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
            "the policy is not dropped"
        );
    }
    // Once it is ready, it has processed the list of both sets.
    let warden = Warden::builder(&cluster, BINARY).start().await?;
    let words = "drops spec.persistentVolumeClaimRetentionPolicy";
    assert_eq!(warden.process().log().matches(words).count(), 1);
    for name in ["one", "two"] {
        let claim = format!("data-{name}-0");
        let protected = async || anyhow::Ok(!claims.get(&claim).await?.finalizers().is_empty());
        eventually("the claim was seen", protected).await?;
        cluster.kubectl(&["delete", "sts", name]).await?;
    }
    let found = claims.list(&Default::default()).await?.items;
    let untouched = |claim: &PersistentVolumeClaim| {
        claim.owner_references().is_empty() && claim.annotations().is_empty()
    };
    ensure!(found.len() == 2 && found.iter().all(untouched), "{found:?}");
    assert_eq!(warden.process().log().matches(words).count(), 1);
    cluster.stop().await;
    Ok(())
}
