//! The stories of KEP-1847: the claims of a set when it is scaled or deleted or its policy
//! changes, and the operations that never delete a claim. [`Story::run`] runs them step by step.

use self::Step::{Ask, Claims, Create, Event, Free, Hold, Kubectl, Now, Rest, Turn, Wait};
use super::support::{
    DELETE_DELETE, DELETE_RETAIN, Policy, RETAIN_DELETE, RETAIN_RETAIN, SetSpace, words,
};
use crate::support::{guarded, shared::Shared};
use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::{cell::RefCell, collections::BTreeMap, fmt::Debug};
use volume_warden_controlplane::eventually;

/// An operation or a check of a story. The text of [`Step::Claims`], [`Step::Rest`] and
/// [`Step::Now`] is the state of a set's claims, as in [`Story::look`].
#[derive(Clone, Debug)]
pub enum Step<T = &'static str> {
    /// Creates the set and waits for its pods.
    Create(&'static str, Spec),
    /// Changes the set.
    Ask(&'static str, Spec),
    /// [`Step::Ask`], and waits for the pods.
    Turn(&'static str, Spec),
    /// Waits until the claims of the set have this state.
    Claims(&'static str, T),
    /// [`Step::Claims`], and checks that they keep it once Volume Warden has processed all earlier
    /// events.
    Rest(&'static str, T),
    /// Checks the claims at once.
    Now(&'static str, T),
    /// Creates a claim.
    CreateClaim(&'static str),
    /// Adds a finalizer that keeps the object, deleted or not.
    Hold(&'static str),
    /// Removes the finalizer of [`Step::Hold`].
    Free(&'static str),
    Evict(&'static str),
    /// Runs the step, and waits until new pods of these names run.
    Replacing(&'static [&'static str], Box<Step<T>>),
    /// Waits for one Event with this reason on the set that names this object.
    Event(&'static str, &'static str, &'static str),
    /// Runs `kubectl` with these words.
    Kubectl(&'static str),
    /// Runs `kubectl wait` with these words.
    Wait(&'static str),
}

/// Changes to the spec of a set. What is not given is not changed.
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
    /// None removes the policy.
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
    /// Names and uids of the claims as last observed by the story.
    known: RefCell<BTreeMap<String, Option<String>>>,
}

impl Story {
    pub async fn new(cluster: Shared, label: &str) -> Result<Self> {
        let (sets, known) = (SetSpace::new(cluster, label).await?, RefCell::default());
        Ok(Self { sets, known })
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
            Step::Ask(set, spec) => sets.patch(set, spec.patch()).await,
            Step::Turn(set, spec) => {
                sets.patch(set, spec.patch()).await?;
                let spec = sets.sets.get(set).await?.spec.unwrap_or_default();
                sets.has_ready(set, spec.replicas.unwrap_or(1)).await
            }
            Step::Claims(set, wanted) => self.reach(set, wanted.as_ref()).await,
            Step::Rest(set, wanted) => {
                self.reach(set, wanted.as_ref()).await?;
                sets.settled().await?;
                let (found, _) = self.look(set).await?;
                let wanted = wanted.as_ref().replace('*', "");
                ensure!(found == wanted, "they became {found:?}");
                Ok(())
            }
            Step::Now(set, wanted) => {
                let uids = self.compare(set, wanted.as_ref()).await?;
                self.known.borrow_mut().extend(uids);
                Ok(())
            }
            Step::CreateClaim(name) => space.create_claim(name).await,
            Step::Hold(object) => self.finalizers(object, Some(["example.com/hold"])).await,
            Step::Free(object) => self.finalizers(object, None).await,
            Step::Evict(pod) => Ok(space.pods.evict(pod, &Default::default()).await.map(drop)?),
            Step::Replacing(pods, step) => sets.replaced(pods, Box::pin(self.step(step))).await,
            Step::Event(reason, set, object) => sets.has_event(reason, set, object).await,
            Step::Kubectl(words) => self.kubectl(&Vec::from_iter(words.split(' '))).await,
            Step::Wait(words) => {
                // The default timeout is half a minute.
                let words = ["wait", "--timeout=180s"]
                    .into_iter()
                    .chain(words.split(' '));
                self.kubectl(&Vec::from_iter(words)).await
            }
        }
    }

    async fn finalizers(&self, object: &str, finalizers: Option<[&str; 1]>) -> Result<()> {
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
    async fn reach(&self, set: &str, wanted: &str) -> Result<()> {
        let compare = async || self.compare(set, wanted).await.map(Some);
        let uids = eventually("the claims have this state", compare).await?;
        self.known.borrow_mut().extend(uids);
        Ok(())
    }

    /// Fails if the claims of the set do not have this state. Returns their names and uids.
    async fn compare(&self, set: &str, wanted: &str) -> Result<Vec<(String, Option<String>)>> {
        let (found, uids) = self.look(set).await?;
        ensure!(found == wanted, "{found:?}");
        Ok(uids)
    }

    /// `0:set+mark 1:pod *2:Terminating`: a star means another claim than the last observed
    /// one.
    async fn look(&self, set: &str) -> Result<(String, Vec<(String, Option<String>)>)> {
        let prefix = format!("data-{set}-");
        let owner = self.sets.sets.get_opt(set).await?.and_then(|set| set.uid());
        let (mut found, mut uids) = (vec![], vec![]);
        let pods = &self.sets.space.pods;
        for claim in self.sets.space.claims.list(&Default::default()).await? {
            let (name, uid) = (claim.name_any(), claim.uid());
            if let Some(ordinal) = name.strip_prefix(&prefix) {
                let pod = pods.get_opt(&format!("{set}-{ordinal}")).await?;
                let living = [owner.clone(), pod.and_then(|pod| pod.uid())];
                let words = words(&claim, &living).join("+");
                let colon = if words.is_empty() { "" } else { ":" };
                let known = self.known.borrow().get(&name).cloned();
                let other = known.is_some_and(|known| known != uid);
                let star = if other { "*" } else { "" };
                found.push(format!("{star}{ordinal}{colon}{words}"));
                uids.push((name, uid));
            }
        }
        Ok((found.join(" "), uids))
    }
}

/// Runs the steps in a namespace of their own, on the cluster that the tests share.
pub async fn run_story<T>(label: &str, steps: impl IntoIterator<Item = Step<T>>) -> Result<()>
where
    T: AsRef<str> + Debug,
{
    // Boxed, since a test's stack is small and many stories run at once.
    let story = async { Story::new(guarded().await?, label).await };
    Box::pin(story).await?.perform(steps).await
}

/// Runs the life of a set with three claims, and the deletions of a set with two, in background, in
/// foreground and with orphans, each with the steps that follow it.
async fn story(life: &[Step], two: &[Step], ends: [Vec<Step>; 3]) -> Result<()> {
    let deletions = [
        "delete sts web --cascade=background",
        "delete sts web --cascade=foreground",
        "delete sts web --cascade=orphan",
    ];
    let stories = deletions.into_iter().zip(ends).map(|(deletion, end)| {
        let begin = two.iter().cloned();
        begin.chain([Kubectl(deletion)]).chain(end).collect()
    });
    let stories: Vec<Vec<Step>> = stories.chain([life.to_vec()]).collect();
    let stories = stories.into_iter().map(|steps| run_story("story", steps));
    try_join_all(stories).await.map(drop)
}

/// STS-40, STS-41, STS-115, STS-122.
#[tokio::test]
async fn by_default_claims_outlive_everything() -> Result<()> {
    let life = [
        Create("web", replicas(3).policy(None)),
        Claims("web", "0 1 2"),
        Turn("web", replicas(1)),
        Rest("web", "0 1 2"),
        Turn("web", replicas(3)),
        Claims("web", "0 1 2"),
        Turn("web", replicas(0)),
        Rest("web", "0 1 2"),
        Kubectl("delete sts web"),
        Rest("web", "0 1 2"),
    ];
    let two = [
        Create("web", replicas(2).policy(RETAIN_RETAIN)),
        Claims("web", "0 1"),
        Turn("web", replicas(1)),
        Rest("web", "0 1"),
    ];
    let background = vec![Wait("--for=delete pod/web-0"), Rest("web", "0 1")];
    let orphan = vec![Kubectl("get pod web-0"), Rest("web", "0 1")];
    story(&life, &two, [background, vec![Rest("web", "0 1")], orphan]).await
}

/// STS-40, STS-41, STS-116.
#[tokio::test]
async fn claims_can_be_deleted_on_scale_down() -> Result<()> {
    let life = [
        Create("web", replicas(3).policy(RETAIN_DELETE)),
        Claims("web", "0:mark 1:mark 2:mark"),
        Turn("web", replicas(1)),
        Rest("web", "0:mark"),
        Turn("web", replicas(3)),
        Claims("web", "0:mark *1:mark *2:mark"),
        Turn("web", replicas(0)),
        Rest("web", ""),
        Kubectl("delete sts web"),
    ];
    let two = [
        Create("web", replicas(2).policy(RETAIN_DELETE)),
        Claims("web", "0:mark 1:mark"),
        Turn("web", replicas(1)),
        Rest("web", "0:mark"),
    ];
    let background = vec![Wait("--for=delete pod/web-0"), Rest("web", "0:gone-mark")];
    let orphan = vec![Kubectl("get pod web-0"), Rest("web", "0:gone-mark")];
    story(
        &life,
        &two,
        [background, vec![Rest("web", "0:gone-mark")], orphan],
    )
    .await
}

/// STS-40, STS-41, STS-117. With foreground deletion the set exists until its claims are gone.
#[tokio::test]
async fn claims_can_be_deleted_with_their_set() -> Result<()> {
    let life = [
        Create("web", replicas(3).policy(DELETE_RETAIN)),
        Claims("web", "0:set 1:set 2:set"),
        Turn("web", replicas(1)),
        Rest("web", "0:set 1:set 2:set"),
        Turn("web", replicas(3)),
        Claims("web", "0:set 1:set 2:set"),
        Turn("web", replicas(0)),
        Rest("web", "0:set 1:set 2:set"),
        Kubectl("delete sts web"),
        Claims("web", ""),
    ];
    let two = [
        Create("web", replicas(2).policy(DELETE_RETAIN)),
        Claims("web", "0:set 1:set"),
        Turn("web", replicas(1)),
        Rest("web", "0:set 1:set"),
    ];
    let orphan = vec![Kubectl("get pod web-0"), Rest("web", "0 1")];
    story(
        &life,
        &two,
        [vec![Claims("web", "")], vec![Now("web", "")], orphan],
    )
    .await
}

/// STS-40, STS-41, STS-118.
#[tokio::test]
async fn claims_can_be_deleted_both_ways() -> Result<()> {
    let life = [
        Create("web", replicas(3).policy(DELETE_DELETE)),
        Claims("web", "0:set+mark 1:set+mark 2:set+mark"),
        Turn("web", replicas(1)),
        Rest("web", "0:set+mark"),
        Turn("web", replicas(3)),
        Claims("web", "0:set+mark *1:set+mark *2:set+mark"),
        Turn("web", replicas(0)),
        Rest("web", ""),
        Kubectl("delete sts web"),
    ];
    let two = [
        Create("web", replicas(2).policy(DELETE_DELETE)),
        Claims("web", "0:set+mark 1:set+mark"),
        Turn("web", replicas(1)),
        Rest("web", "0:set+mark"),
    ];
    let orphan = vec![Kubectl("get pod web-0"), Rest("web", "0:gone-mark")];
    story(
        &life,
        &two,
        [vec![Claims("web", "")], vec![Now("web", "")], orphan],
    )
    .await
}

/// STS-28, STS-30: claims whose pod was scaled down follow `whenDeleted`, too. In-tree does not
/// update them.
#[tokio::test]
async fn claims_scaled_away_follow_when_deleted() -> Result<()> {
    let steps = [
        Create("kept", replicas(2).policy(DELETE_RETAIN)),
        Turn("kept", replicas(1)),
        Claims("kept", "0:set 1:set"),
        Turn("kept", policy(RETAIN_RETAIN)),
        Claims("kept", "0 1"),
        Kubectl("delete sts kept"),
        Create("gone", replicas(2).policy(RETAIN_RETAIN)),
        Turn("gone", replicas(1)),
        Claims("gone", "0 1"),
        Turn("gone", policy(DELETE_RETAIN)),
        Claims("gone", "0:set 1:set"),
        Kubectl("delete sts gone"),
        Claims("gone", ""),
        Rest("kept", "0 1"),
    ];
    run_story("flip-deleted", steps).await
}

/// After a change from Retain to Delete a scale-down deletes only claims that were in range since.
/// The others are deleted with the set, if at all.
#[tokio::test]
async fn claims_kept_under_retain_are_not_scaled_down_later() -> Result<()> {
    let steps = [
        Create("web", replicas(3).policy(RETAIN_RETAIN)),
        Turn("web", replicas(1)),
        Claims("web", "0 1 2"),
        Turn("web", policy(RETAIN_DELETE)),
        Rest("web", "0:mark 1 2"),
        Event("ScaledDownUnmarked", "web", "data-web-2"),
        Event("ScaledDownUnmarked", "web", "data-web-1"),
        Turn("web", replicas(2)),
        Claims("web", "0:mark 1:mark 2"),
        Turn("web", replicas(0)),
        Rest("web", "2"),
        Turn("web", policy(DELETE_DELETE)),
        Rest("web", "2:set"),
        Kubectl("delete sts web"),
        Claims("web", ""),
    ];
    run_story("flip-scaled", steps).await
}

/// Delete changed to Retain during a scale-down and before the next one; then Delete again, too
/// late.
#[tokio::test]
async fn a_change_to_retain_takes_effect_in_time() -> Result<()> {
    let steps = [
        Create("web", replicas(3).policy(DELETE_DELETE)),
        Claims("web", "0:set+mark 1:set+mark 2:set+mark"),
        Hold("pod/web-2"),
        Ask("web", replicas(2)),
        Claims("web", "0:set+mark 1:set+mark 2:pod+mark"),
        Ask("web", policy(DELETE_RETAIN)),
        Claims("web", "0:set 1:set 2:set"),
        Free("pod/web-2"),
        Wait("--for=delete pod/web-2"),
        Turn("web", replicas(1)),
        Rest("web", "0:set 1:set 2:set"),
        Turn("web", policy(DELETE_DELETE)),
        Rest("web", "0:set+mark 1:set 2:set"),
    ];
    run_story("flip-retain", steps).await
}

/// A foreground deletion of the set deletes its pods in the foreground, too. Neither the pod nor the
/// claim that it owns may wait for the other.
#[tokio::test]
async fn a_pod_that_is_deleted_in_the_foreground_does_not_wait_for_its_claim() -> Result<()> {
    let ordered = replicas(2).pod_management("OrderedReady");
    let steps = [
        Create("web", ordered.policy(RETAIN_DELETE)),
        Claims("web", "0:mark 1:mark"),
        Hold("pod/web-1"),
        Ask("web", replicas(0)),
        Claims("web", "0:pod+mark 1:pod+mark"),
        Kubectl("delete sts web --cascade=foreground --wait=false"),
        Wait("--for=delete pod/web-0"),
        Free("pod/web-1"),
        Wait("--for=delete sts/web"),
        Claims("web", ""),
    ];
    run_story("foreground", steps).await
}
