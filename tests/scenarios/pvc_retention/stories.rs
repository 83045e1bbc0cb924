//! The user stories of KEP-1847: what happens to the claims of a set when the set is scaled or
//! deleted, or its policy changes. [`Story::run`] runs the steps of a story.

use self::Step::{
    AddFinalizer, Claims, ClaimsNow, Create, Event, Kubectl, Patch, PatchAndWait, RemoveFinalizer,
    StableClaims, Wait,
};
use super::support::{
    DELETE_DELETE, DELETE_RETAIN, Policy, RETAIN_DELETE, RETAIN_RETAIN, SetSpace, claim_state,
};
use crate::support::{guarded, shared::Shared};
use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::{cell::RefCell, collections::BTreeMap, fmt::Debug};
use volume_warden_controlplane::eventually;

/// An operation or a check of a story. In [`Step::Claims`], [`Step::StableClaims`] and
/// [`Step::ClaimsNow`] the second text is the expected state of the set's claims, in the format of
/// [`Story::state_of_claims`].
#[derive(Clone, Debug)]
pub enum Step<T = &'static str> {
    /// Creates the set, and waits until its pods are ready.
    Create(&'static str, Spec),
    /// Changes the set.
    Patch(&'static str, Spec),
    /// [`Step::Patch`], and waits until the pods are ready.
    PatchAndWait(&'static str, Spec),
    /// Waits until the claims of the set have this state.
    Claims(&'static str, T),
    /// [`Step::Claims`], and checks that the claims still have this state after Volume Warden has
    /// processed all earlier events.
    StableClaims(&'static str, T),
    /// Checks that the claims of the set have this state now, without waiting.
    ClaimsNow(&'static str, T),
    /// Creates a claim.
    CreateClaim(&'static str),
    /// Makes a finalizer of this test the only one of the object.
    AddFinalizer(&'static str),
    /// Removes all finalizers of the object.
    RemoveFinalizer(&'static str),
    Evict(&'static str),
    /// Runs the step, and waits until new pods with these names are Running.
    Replacing(&'static [&'static str], Box<Step<T>>),
    /// Waits until there is exactly one Event with this reason on this set whose message contains
    /// this object's name.
    Event(&'static str, &'static str, &'static str),
    /// Runs `kubectl` with these arguments.
    Kubectl(&'static str),
    /// Runs `kubectl wait` with these arguments.
    Wait(&'static str),
}

/// Changes to the spec of a set. A field that is `None` is not changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spec {
    replicas: Option<i32>,
    /// `Some(None)` removes the policy.
    policy: Option<Option<Policy>>,
    pod_management: Option<&'static str>,
    first_ordinal: Option<i32>,
}

pub fn replicas(number: i32) -> Spec {
    Spec {
        replicas: Some(number),
        ..Spec::default()
    }
}

pub fn policy(policy: impl Into<Option<Policy>>) -> Spec {
    Spec::default().policy(policy)
}

impl Spec {
    /// `None` removes the policy.
    pub fn policy(self, policy: impl Into<Option<Policy>>) -> Self {
        Self {
            policy: Some(policy.into()),
            ..self
        }
    }

    pub fn pod_management(self, policy: &'static str) -> Self {
        Self {
            pod_management: Some(policy),
            ..self
        }
    }

    pub fn first_ordinal(self, ordinal: i32) -> Self {
        Self {
            first_ordinal: Some(ordinal),
            ..self
        }
    }

    fn patch(self) -> Value {
        let mut spec = json!({});
        if let Some(replicas) = self.replicas {
            spec["replicas"] = json!(replicas);
        }
        if let Some(policy) = self.policy {
            let policy = policy
                .map(|(deleted, scaled)| json!({"whenDeleted": deleted, "whenScaled": scaled}));
            spec["persistentVolumeClaimRetentionPolicy"] = json!(policy);
        }
        if let Some(management) = self.pod_management {
            spec["podManagementPolicy"] = json!(management);
        }
        if let Some(ordinal) = self.first_ordinal {
            spec["ordinals"] = json!({"start": ordinal});
        }
        json!({"spec": spec})
    }
}

/// A namespace in which a story runs.
pub struct Story {
    pub sets: SetSpace,
    /// The uid of each claim by its name, as last observed by the story.
    observed: RefCell<BTreeMap<String, Option<String>>>,
}

impl Story {
    pub async fn new(cluster: Shared, label: &str) -> Result<Self> {
        let (sets, observed) = (SetSpace::new(cluster, label).await?, RefCell::default());
        Ok(Self { sets, observed })
    }

    pub async fn run(&self, steps: impl IntoIterator<Item = Step>) -> Result<()> {
        self.perform(steps).await
    }

    async fn perform<T>(&self, steps: impl IntoIterator<Item = Step<T>>) -> Result<()>
    where
        T: AsRef<str> + Debug,
    {
        for step in steps {
            let result = Box::pin(self.step(&step)).await;
            result.with_context(|| format!("{step:?}"))?;
        }
        Ok(())
    }

    async fn step<T: AsRef<str> + Debug>(&self, step: &Step<T>) -> Result<()> {
        let (sets, space) = (&self.sets, &self.sets.space);
        match step {
            Step::Create(set, spec) => {
                let replicas = spec.replicas.unwrap_or(1);
                let created = sets.create_with(set, replicas, RETAIN_RETAIN, spec.patch());
                created.await.map(drop)
            }
            Step::Patch(set, spec) => sets.patch(set, spec.patch()).await,
            Step::PatchAndWait(set, spec) => {
                sets.patch(set, spec.patch()).await?;
                let spec = sets.sets.get(set).await?.spec.unwrap_or_default();
                sets.has_ready(set, spec.replicas.unwrap_or(1)).await
            }
            Step::Claims(set, wanted) => self.wait_for_claims(set, wanted.as_ref()).await,
            Step::StableClaims(set, wanted) => {
                self.wait_for_claims(set, wanted.as_ref()).await?;
                sets.changes_are_processed().await?;
                let (found, _) = self.state_of_claims(set).await?;
                let wanted = wanted.as_ref().replace('*', "");
                ensure!(found == wanted, "the claims became {found:?}");
                Ok(())
            }
            Step::ClaimsNow(set, wanted) => {
                let uids = self.check_claims(set, wanted.as_ref()).await?;
                self.observed.borrow_mut().extend(uids);
                Ok(())
            }
            Step::CreateClaim(name) => space.create_claim(name).await,
            Step::AddFinalizer(object) => {
                self.set_finalizers(object, Some(["example.com/hold"]))
                    .await
            }
            Step::RemoveFinalizer(object) => self.set_finalizers(object, None).await,
            Step::Evict(pod) => Ok(space.pods.evict(pod, &Default::default()).await.map(drop)?),
            Step::Replacing(pods, step) => {
                sets.pods_are_replaced(pods, Box::pin(self.step(step)))
                    .await
            }
            Step::Event(reason, set, object) => sets.has_event(reason, set, object).await,
            Step::Kubectl(arguments) => self.kubectl(&Vec::from_iter(arguments.split(' '))).await,
            Step::Wait(arguments) => {
                // The default timeout is half a minute.
                let arguments = ["wait", "--timeout=180s"]
                    .into_iter()
                    .chain(arguments.split(' '));
                self.kubectl(&Vec::from_iter(arguments)).await
            }
        }
    }

    async fn set_finalizers(&self, object: &str, finalizers: Option<[&str; 1]>) -> Result<()> {
        let patch = json!({"metadata": {"finalizers": finalizers}}).to_string();
        self.kubectl(&["patch", object, "--type=merge", "-p", &patch])
            .await
    }

    async fn kubectl(&self, arguments: &[&str]) -> Result<()> {
        let namespace = ["-n", &self.sets.space.name];
        let arguments = [&namespace, arguments].concat();
        self.sets.space.cluster.kubectl(&arguments).await.map(drop)
    }

    /// Waits until the claims of the set have this state.
    async fn wait_for_claims(&self, set: &str, wanted: &str) -> Result<()> {
        let check = async || self.check_claims(set, wanted).await.map(Some);
        let uids = eventually("the claims have the expected state", check).await?;
        self.observed.borrow_mut().extend(uids);
        Ok(())
    }

    /// Fails if the claims of the set do not have this state. Returns their names and uids.
    async fn check_claims(&self, set: &str, wanted: &str) -> Result<Vec<(String, Option<String>)>> {
        let (found, uids) = self.state_of_claims(set).await?;
        ensure!(found == wanted, "{found:?}");
        Ok(uids)
    }

    /// The state of the set's claims, and their names and uids. The state is a text such as
    /// `0:set+mark 1:pod *2:Terminating`: for each claim its ordinal and the words of
    /// [`claim_state`]. An asterisk shows that the claim was recreated: its uid is not the last
    /// observed one.
    async fn state_of_claims(&self, set: &str) -> Result<(String, Vec<(String, Option<String>)>)> {
        let prefix = format!("data-{set}-");
        let set_uid = self.sets.sets.get_opt(set).await?.and_then(|set| set.uid());
        let (mut found, mut uids) = (vec![], vec![]);
        let pods = &self.sets.space.pods;
        for claim in self.sets.space.claims.list(&Default::default()).await? {
            let (name, uid) = (claim.name_any(), claim.uid());
            if let Some(ordinal) = name.strip_prefix(&prefix) {
                let pod = pods.get_opt(&format!("{set}-{ordinal}")).await?;
                let existing = [set_uid.clone(), pod.and_then(|pod| pod.uid())];
                let state = claim_state(&claim, &existing).join("+");
                let colon = if state.is_empty() { "" } else { ":" };
                let observed = self.observed.borrow().get(&name).cloned();
                let recreated = observed.is_some_and(|observed| observed != uid);
                let asterisk = if recreated { "*" } else { "" };
                found.push(format!("{asterisk}{ordinal}{colon}{state}"));
                uids.push((name, uid));
            }
        }
        Ok((found.join(" "), uids))
    }
}

/// Runs the steps in a new namespace of the shared cluster whose Volume Warden handles all
/// namespaces.
pub async fn run_story<T>(label: &str, steps: impl IntoIterator<Item = Step<T>>) -> Result<()>
where
    T: AsRef<str> + Debug,
{
    // Boxed, because the stack of a test is small and many stories run at once.
    let story = async { Story::new(guarded().await?, label).await };
    Box::pin(story).await?.perform(steps).await
}

/// Runs four stories at once. The first consists of the steps `scaling`. The others begin with the
/// steps `before_deletion`, delete the set `web` with the cascades `background`, `foreground` and
/// `orphan`, and end with the steps of `after_deletion`, in this order.
async fn story(
    scaling: &[Step],
    before_deletion: &[Step],
    after_deletion: [Vec<Step>; 3],
) -> Result<()> {
    let deletions = [
        "delete sts web --cascade=background",
        "delete sts web --cascade=foreground",
        "delete sts web --cascade=orphan",
    ];
    let stories = deletions.into_iter().zip(after_deletion);
    let stories = stories.map(|(deletion, after)| {
        let before = before_deletion.iter().cloned();
        before.chain([Kubectl(deletion)]).chain(after).collect()
    });
    let stories: Vec<Vec<Step>> = stories.chain([scaling.to_vec()]).collect();
    let stories = stories.into_iter().map(|steps| run_story("story", steps));
    try_join_all(stories).await.map(drop)
}

/// STS-40, STS-41, STS-115, STS-122: without a policy, and with Retain for both fields, no claim is
/// deleted, neither by a scale-down nor with the set.
#[tokio::test]
async fn by_default_no_claim_is_deleted() -> Result<()> {
    let scaling = [
        Create("web", replicas(3).policy(None)),
        Claims("web", "0 1 2"),
        PatchAndWait("web", replicas(1)),
        StableClaims("web", "0 1 2"),
        PatchAndWait("web", replicas(3)),
        Claims("web", "0 1 2"),
        PatchAndWait("web", replicas(0)),
        StableClaims("web", "0 1 2"),
        Kubectl("delete sts web"),
        StableClaims("web", "0 1 2"),
    ];
    let before_deletion = [
        Create("web", replicas(2).policy(RETAIN_RETAIN)),
        Claims("web", "0 1"),
        PatchAndWait("web", replicas(1)),
        StableClaims("web", "0 1"),
    ];
    let background = vec![Wait("--for=delete pod/web-0"), StableClaims("web", "0 1")];
    let orphan = vec![Kubectl("get pod web-0"), StableClaims("web", "0 1")];
    story(
        &scaling,
        &before_deletion,
        [background, vec![StableClaims("web", "0 1")], orphan],
    )
    .await
}

/// STS-40, STS-41, STS-116: with `whenScaled: Delete` alone, a scale-down deletes the claims, and
/// the deletion of the set keeps the remaining ones.
#[tokio::test]
async fn claims_can_be_deleted_on_scale_down() -> Result<()> {
    let scaling = [
        Create("web", replicas(3).policy(RETAIN_DELETE)),
        Claims("web", "0:mark 1:mark 2:mark"),
        PatchAndWait("web", replicas(1)),
        StableClaims("web", "0:mark"),
        PatchAndWait("web", replicas(3)),
        Claims("web", "0:mark *1:mark *2:mark"),
        PatchAndWait("web", replicas(0)),
        StableClaims("web", ""),
        Kubectl("delete sts web"),
    ];
    let before_deletion = [
        Create("web", replicas(2).policy(RETAIN_DELETE)),
        Claims("web", "0:mark 1:mark"),
        PatchAndWait("web", replicas(1)),
        StableClaims("web", "0:mark"),
    ];
    let background = vec![
        Wait("--for=delete pod/web-0"),
        StableClaims("web", "0:gone-mark"),
    ];
    let orphan = vec![Kubectl("get pod web-0"), StableClaims("web", "0:gone-mark")];
    story(
        &scaling,
        &before_deletion,
        [background, vec![StableClaims("web", "0:gone-mark")], orphan],
    )
    .await
}

/// STS-40, STS-41, STS-117: with `whenDeleted: Delete` alone, a scale-down keeps the claims, and
/// the deletion of the set deletes them, except with `--cascade=orphan`. With foreground deletion,
/// the set exists until its claims are deleted.
#[tokio::test]
async fn claims_can_be_deleted_with_their_set() -> Result<()> {
    let scaling = [
        Create("web", replicas(3).policy(DELETE_RETAIN)),
        Claims("web", "0:set 1:set 2:set"),
        PatchAndWait("web", replicas(1)),
        StableClaims("web", "0:set 1:set 2:set"),
        PatchAndWait("web", replicas(3)),
        Claims("web", "0:set 1:set 2:set"),
        PatchAndWait("web", replicas(0)),
        StableClaims("web", "0:set 1:set 2:set"),
        Kubectl("delete sts web"),
        Claims("web", ""),
    ];
    let before_deletion = [
        Create("web", replicas(2).policy(DELETE_RETAIN)),
        Claims("web", "0:set 1:set"),
        PatchAndWait("web", replicas(1)),
        StableClaims("web", "0:set 1:set"),
    ];
    let orphan = vec![Kubectl("get pod web-0"), StableClaims("web", "0 1")];
    story(
        &scaling,
        &before_deletion,
        [vec![Claims("web", "")], vec![ClaimsNow("web", "")], orphan],
    )
    .await
}

/// STS-40, STS-41, STS-118: with Delete for both fields, a scale-down deletes the claims, and the
/// deletion of the set deletes the remaining ones, except with `--cascade=orphan`.
#[tokio::test]
async fn claims_can_be_deleted_on_scale_down_and_with_their_set() -> Result<()> {
    let scaling = [
        Create("web", replicas(3).policy(DELETE_DELETE)),
        Claims("web", "0:set+mark 1:set+mark 2:set+mark"),
        PatchAndWait("web", replicas(1)),
        StableClaims("web", "0:set+mark"),
        PatchAndWait("web", replicas(3)),
        Claims("web", "0:set+mark *1:set+mark *2:set+mark"),
        PatchAndWait("web", replicas(0)),
        StableClaims("web", ""),
        Kubectl("delete sts web"),
    ];
    let before_deletion = [
        Create("web", replicas(2).policy(DELETE_DELETE)),
        Claims("web", "0:set+mark 1:set+mark"),
        PatchAndWait("web", replicas(1)),
        StableClaims("web", "0:set+mark"),
    ];
    let orphan = vec![Kubectl("get pod web-0"), StableClaims("web", "0:gone-mark")];
    story(
        &scaling,
        &before_deletion,
        [vec![Claims("web", "")], vec![ClaimsNow("web", "")], orphan],
    )
    .await
}

/// STS-28, STS-30: a change of `whenDeleted` also applies to claims whose pods were scaled down.
/// The StatefulSet controller of Kubernetes does not update these claims.
#[tokio::test]
async fn claims_of_scaled_down_pods_follow_when_deleted() -> Result<()> {
    let steps = [
        Create("kept", replicas(2).policy(DELETE_RETAIN)),
        PatchAndWait("kept", replicas(1)),
        Claims("kept", "0:set 1:set"),
        PatchAndWait("kept", policy(RETAIN_RETAIN)),
        Claims("kept", "0 1"),
        Kubectl("delete sts kept"),
        Create("gone", replicas(2).policy(RETAIN_RETAIN)),
        PatchAndWait("gone", replicas(1)),
        Claims("gone", "0 1"),
        PatchAndWait("gone", policy(DELETE_RETAIN)),
        Claims("gone", "0:set 1:set"),
        Kubectl("delete sts gone"),
        Claims("gone", ""),
        StableClaims("kept", "0 1"),
    ];
    run_story("flip-deleted", steps).await
}

/// After a change of `whenScaled` from Retain to Delete, a scale-down deletes only claims that were
/// in range after the change. The other claims are kept, and are deleted with the set if
/// `whenDeleted` is Delete.
#[tokio::test]
async fn claims_kept_under_retain_are_not_scaled_down_later() -> Result<()> {
    let steps = [
        Create("web", replicas(3).policy(RETAIN_RETAIN)),
        PatchAndWait("web", replicas(1)),
        Claims("web", "0 1 2"),
        PatchAndWait("web", policy(RETAIN_DELETE)),
        StableClaims("web", "0:mark 1 2"),
        Event("ScaledDownUnmarked", "web", "data-web-2"),
        Event("ScaledDownUnmarked", "web", "data-web-1"),
        PatchAndWait("web", replicas(2)),
        Claims("web", "0:mark 1:mark 2"),
        PatchAndWait("web", replicas(0)),
        StableClaims("web", "2"),
        PatchAndWait("web", policy(DELETE_DELETE)),
        StableClaims("web", "2:set"),
        Kubectl("delete sts web"),
        Claims("web", ""),
    ];
    run_story("flip-scaled", steps).await
}

/// `whenScaled` is changed from Delete to Retain during a scale-down and before the next one: both
/// keep their claims. A later change back to Delete does not delete these claims.
#[tokio::test]
async fn a_change_to_retain_takes_effect_in_time() -> Result<()> {
    let steps = [
        Create("web", replicas(3).policy(DELETE_DELETE)),
        Claims("web", "0:set+mark 1:set+mark 2:set+mark"),
        AddFinalizer("pod/web-2"),
        Patch("web", replicas(2)),
        Claims("web", "0:set+mark 1:set+mark 2:pod+mark"),
        Patch("web", policy(DELETE_RETAIN)),
        Claims("web", "0:set 1:set 2:set"),
        RemoveFinalizer("pod/web-2"),
        Wait("--for=delete pod/web-2"),
        PatchAndWait("web", replicas(1)),
        StableClaims("web", "0:set 1:set 2:set"),
        PatchAndWait("web", policy(DELETE_DELETE)),
        StableClaims("web", "0:set+mark 1:set 2:set"),
    ];
    run_story("flip-retain", steps).await
}

/// A foreground deletion of the set also deletes its pods in the foreground. The pod must not wait
/// for the deletion of the claim that it owns, nor the claim for that of the pod.
#[tokio::test]
async fn a_pod_that_is_deleted_in_the_foreground_does_not_wait_for_its_claim() -> Result<()> {
    let ordered = replicas(2).pod_management("OrderedReady");
    let steps = [
        Create("web", ordered.policy(RETAIN_DELETE)),
        Claims("web", "0:mark 1:mark"),
        AddFinalizer("pod/web-1"),
        Patch("web", replicas(0)),
        Claims("web", "0:pod+mark 1:pod+mark"),
        Kubectl("delete sts web --cascade=foreground --wait=false"),
        Wait("--for=delete pod/web-0"),
        RemoveFinalizer("pod/web-1"),
        Wait("--for=delete sts/web"),
        Claims("web", ""),
    ];
    run_story("foreground", steps).await
}
