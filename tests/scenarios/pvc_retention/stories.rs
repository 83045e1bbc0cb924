//! The stories of KEP-1847: the claims of a set when it is scaled or deleted or its policy
//! changes, and the operations that never delete a claim. [`Story::run`] runs them step by step.

use super::support::{RETAIN_RETAIN, SetSpace, words};
use crate::support::{guarded, shared::Shared};
use anyhow::{Context, Result, bail, ensure};
use futures::future::try_join_all;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::{cell::RefCell, collections::BTreeMap};
use volume_warden_controlplane::eventually;

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

    /// Runs steps, separated by line breaks or semicolons.
    pub async fn run(&self, steps: &str) -> Result<()> {
        for step in steps.split(['\n', ';']).map(str::trim) {
            let result = Box::pin(self.step(step)).await;
            result.with_context(|| step.to_owned())?;
        }
        Ok(())
    }

    /// `create` and `turn` wait for the pods, `ask` does not. Sets are described as in [`spec`],
    /// claims as in [`Self::look`]: `now` checks the claims at once, `claims` waits for them, and
    /// `rest` waits for them and checks that they stay so.
    async fn step(&self, step: &str) -> Result<()> {
        let (sets, space) = (&self.sets, &self.sets.space);
        let step = Vec::from_iter(step.split_whitespace());
        match step[..] {
            [] => Ok(()),
            ["create", set, replicas, ref more @ ..] => {
                let spec = json!({"spec": spec(more)?});
                let created = sets.create_with(set, replicas.parse()?, RETAIN_RETAIN, spec);
                created.await.map(drop)
            }
            ["ask", set, ref how @ ..] => sets.patch(set, json!({"spec": spec(how)?})).await,
            ["turn", set, ref how @ ..] => {
                sets.patch(set, json!({"spec": spec(how)?})).await?;
                let spec = sets.sets.get(set).await?.spec.unwrap_or_default();
                sets.has_ready(set, spec.replicas.unwrap_or(1)).await
            }
            // A finalizer keeps the object, deleted or not.
            [what @ ("hold" | "free"), object] => {
                let finalizers = (what == "hold").then_some(["example.com/hold"]);
                let patch = json!({"metadata": {"finalizers": finalizers}}).to_string();
                self.kubectl(&["patch", object, "--type=merge", "-p", &patch])
                    .await
            }
            ["claim", name] => space.create_claim(name).await,
            ["evict", pod] => Ok(space.pods.evict(pod, &Default::default()).await.map(drop)?),
            // Runs the rest of the step, and waits until new pods of these names run.
            ["replacing", pods, ref how @ ..] => {
                let (pods, how) = (Vec::from_iter(pods.split(',')), how.join(" "));
                sets.replaced(&pods, Box::pin(self.step(&how))).await
            }
            // The default timeout of `kubectl wait` is half a minute.
            ["kubectl", "wait", ref arguments @ ..] => {
                let arguments = [&["wait", "--timeout=180s"], arguments].concat();
                self.kubectl(&arguments).await
            }
            ["kubectl", ref arguments @ ..] => self.kubectl(arguments).await,
            ["event", reason, set, claim] => sets.has_event(reason, set, claim).await,
            [how, set, ref wanted @ ..] => self.claims(how, set, &wanted.join(" ")).await,
            _ => bail!("unknown step"),
        }
    }

    async fn kubectl(&self, arguments: &[&str]) -> Result<()> {
        let namespace = ["-n", &self.sets.space.name];
        let arguments = [&namespace, arguments].concat();
        self.sets.space.cluster.kubectl(&arguments).await.map(drop)
    }

    async fn claims(&self, how: &str, set: &str, wanted: &str) -> Result<()> {
        let look = async || {
            let (found, uids) = self.look(set).await?;
            ensure!(found == wanted, "{found:?}");
            anyhow::Ok(Some(uids))
        };
        let uids = match how {
            "claims" | "rest" => eventually("the claims have this state", look).await?,
            "now" => look().await?.unwrap_or_default(),
            _ => bail!("unknown step"),
        };
        self.known.borrow_mut().extend(uids);
        if how == "rest" {
            self.sets.settled().await?;
            let (found, _) = self.look(set).await?;
            ensure!(found == wanted.replace('*', ""), "they became {found:?}");
        }
        Ok(())
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

/// `3` replicas, `Delete/Retain` when deleted and when scaled, or `unsaid`, `OrderedReady`,
/// `from=2` as the first ordinal.
fn spec(words: &[&str]) -> Result<Value> {
    const POLICY: &str = "persistentVolumeClaimRetentionPolicy";
    let mut spec = json!({});
    for word in words {
        let (field, value) = match (word.split_once(['/', '=']), word.parse::<i32>()) {
            (Some(("from", n)), _) => ("ordinals", json!({"start": n.parse::<i32>()?})),
            (Some((d, s)), _) => (POLICY, json!({"whenDeleted": d, "whenScaled": s})),
            (None, Ok(replicas)) => ("replicas", json!(replicas)),
            (None, Err(_)) if *word == "unsaid" => (POLICY, json!(null)),
            (None, Err(_)) => ("podManagementPolicy", json!(word)),
        };
        spec[field] = value;
    }
    Ok(spec)
}

pub async fn run_story(label: &str, steps: &str) -> Result<()> {
    // Boxed, since a test's stack is small and many stories run at once.
    let story = async { Story::new(guarded().await?, label).await };
    Box::pin(story).await?.run(steps).await
}

/// Runs the life of a set with three claims, and the deletions of a set with two.
async fn story(life: &str, two: &str, ends: [&str; 3]) -> Result<()> {
    let ends = ends.map(|end| format!("{two}; kubectl delete sts web --cascade={end}"));
    let all = ends.iter().map(String::as_str).chain([life]);
    try_join_all(all.map(|steps| run_story("story", steps))).await?;
    Ok(())
}

/// STS-40, STS-41, STS-115, STS-122.
#[tokio::test]
async fn by_default_claims_outlive_everything() -> Result<()> {
    let life = "create web 3 unsaid; claims web 0 1 2; turn web 1; rest web 0 1 2
        turn web 3; claims web 0 1 2; turn web 0; rest web 0 1 2; kubectl delete sts web; rest web 0 1 2";
    let two = "create web 2 Retain/Retain; claims web 0 1; turn web 1; rest web 0 1";
    let background = "background; kubectl wait --for=delete pod/web-0; rest web 0 1";
    let orphan = "orphan; kubectl get pod web-0; rest web 0 1";
    story(life, two, [background, "foreground; rest web 0 1", orphan]).await
}

/// STS-40, STS-41, STS-116.
#[tokio::test]
async fn claims_can_be_deleted_on_scale_down() -> Result<()> {
    let life =
        "create web 3 Retain/Delete; claims web 0:mark 1:mark 2:mark; turn web 1; rest web 0:mark
        turn web 3; claims web 0:mark *1:mark *2:mark; turn web 0; rest web; kubectl delete sts web";
    let two = "create web 2 Retain/Delete; claims web 0:mark 1:mark; turn web 1; rest web 0:mark";
    let background = "background; kubectl wait --for=delete pod/web-0; rest web 0:gone-mark";
    let orphan = "orphan; kubectl get pod web-0; rest web 0:gone-mark";
    story(
        life,
        two,
        [background, "foreground; rest web 0:gone-mark", orphan],
    )
    .await
}

/// STS-40, STS-41, STS-117. With foreground deletion the set exists until its claims are gone.
#[tokio::test]
async fn claims_can_be_deleted_with_their_set() -> Result<()> {
    let life = "create web 3 Delete/Retain; claims web 0:set 1:set 2:set; turn web 1; rest web 0:set 1:set 2:set
        turn web 3; claims web 0:set 1:set 2:set; turn web 0; rest web 0:set 1:set 2:set
        kubectl delete sts web; claims web";
    let two =
        "create web 2 Delete/Retain; claims web 0:set 1:set; turn web 1; rest web 0:set 1:set";
    let orphan = "orphan; kubectl get pod web-0; rest web 0 1";
    story(
        life,
        two,
        ["background; claims web", "foreground; now web", orphan],
    )
    .await
}

/// STS-40, STS-41, STS-118.
#[tokio::test]
async fn claims_can_be_deleted_both_ways() -> Result<()> {
    let life = "create web 3 Delete/Delete; claims web 0:set+mark 1:set+mark 2:set+mark; turn web 1; rest web 0:set+mark
        turn web 3; claims web 0:set+mark *1:set+mark *2:set+mark; turn web 0; rest web; kubectl delete sts web";
    let two = "create web 2 Delete/Delete; claims web 0:set+mark 1:set+mark; turn web 1; rest web 0:set+mark";
    let orphan = "orphan; kubectl get pod web-0; rest web 0:gone-mark";
    story(
        life,
        two,
        ["background; claims web", "foreground; now web", orphan],
    )
    .await
}

/// STS-28, STS-30: claims whose pod was scaled down follow `whenDeleted`, too. In-tree does not
/// update them.
#[tokio::test]
async fn claims_scaled_away_follow_when_deleted() -> Result<()> {
    let steps = "
        create kept 2 Delete/Retain; turn kept 1; claims kept 0:set 1:set
        turn kept Retain/Retain; claims kept 0 1; kubectl delete sts kept
        create gone 2 Retain/Retain; turn gone 1; claims gone 0 1
        turn gone Delete/Retain; claims gone 0:set 1:set; kubectl delete sts gone
        claims gone; rest kept 0 1";
    run_story("flip-deleted", steps).await
}

/// After a change from Retain to Delete a scale-down deletes only claims that were in range since.
/// The others are deleted with the set, if at all.
#[tokio::test]
async fn claims_kept_under_retain_are_not_scaled_down_later() -> Result<()> {
    let steps = "
        create web 3 Retain/Retain; turn web 1; claims web 0 1 2
        turn web Retain/Delete; rest web 0:mark 1 2
        event ScaledDownUnmarked web data-web-2; event ScaledDownUnmarked web data-web-1
        turn web 2; claims web 0:mark 1:mark 2; turn web 0; rest web 2
        turn web Delete/Delete; rest web 2:set; kubectl delete sts web; claims web";
    run_story("flip-scaled", steps).await
}

/// Delete changed to Retain during a scale-down and before the next one; then Delete again, too
/// late.
#[tokio::test]
async fn a_change_to_retain_takes_effect_in_time() -> Result<()> {
    let steps = "
        create web 3 Delete/Delete; claims web 0:set+mark 1:set+mark 2:set+mark
        hold pod/web-2; ask web 2; claims web 0:set+mark 1:set+mark 2:pod+mark
        ask web Delete/Retain; claims web 0:set 1:set 2:set
        free pod/web-2; kubectl wait --for=delete pod/web-2; turn web 1; rest web 0:set 1:set 2:set
        turn web Delete/Delete; rest web 0:set+mark 1:set 2:set";
    run_story("flip-retain", steps).await
}
