//! The reconciler of pvc-provisioner: creates the claims that admission missed, sets the owner of
//! the claims that admission created, and deletes those of them that no pod names.

use super::{
    Caches, NAME, Options, Subject, metrics,
    notices::Notices,
    rule::{RuleOptions, Unconfirmed, decide, decide_live, depends_on_users, is_marked},
    triggers,
    view::{User, View, Wait},
    waiting::Waiting,
};
use crate::{
    cluster::{
        Apply, Evidence, LiveGet, Reconcile, ReconcileError, Reconciled, Requeue, SharedList,
        WorkQueue,
    },
    objects::{Claim, ObjectName, Pod},
    telemetry::Metrics,
};
use std::{ops::ControlFlow, sync::Arc, time::Duration};

const GET_LIMIT: Duration = Duration::from_secs(10);
/// Maximum age of the LIST of pods on which the deletion of a claim may rest.
pub(super) const MAX_AGE: Duration = Duration::from_secs(10);

/// Creates and deletes the claims that pods request by annotation, and sets their owner.
pub struct PvcProvisionerReconciler {
    /// The watches that pvc-provisioner reads.
    pub caches: Caches,
    /// Live reads of claims, to confirm that a claim is absent.
    pub live_claims: Arc<LiveGet<Claim>>,
    /// Live reads of single pods, to confirm that a pod requests a claim.
    pub live_pod: Arc<LiveGet<Pod>>,
    /// Live LISTs of pods, to find the pods that name a claim, or confirm that there are none.
    pub live_pods: Arc<SharedList<Pod>>,
    /// Writes to the API server.
    pub apply: Arc<Apply>,
    /// The options of pvc-provisioner.
    pub options: Arc<Options>,
    /// Namespaces whose pods are not reviewed.
    pub exempt: Vec<String>,
    /// Publishes Events about pods and their claims.
    pub notices: Notices,
    /// Remembers the claims that await their pods.
    pub waiting: Waiting,
}

impl PvcProvisionerReconciler {
    /// Adds claims and pods to the queue when claims or pods change.
    pub fn listen(&self, queue: &Arc<WorkQueue<Subject>>) {
        triggers::listen(&self.caches, &self.options.controller_id, queue);
    }

    /// Registers the metric of claims that await their pod as owner.
    pub fn register_metrics(&self, metrics: &Metrics) {
        let controller_id = self.options.controller_id.clone();
        metrics::register(metrics, self.caches.clone(), controller_id);
    }
}

impl Reconcile for PvcProvisionerReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = Subject;

    fn candidates(&self) -> Vec<Subject> {
        self.forget_deleted();
        triggers::candidates(&self.caches, &self.options.controller_id)
    }

    async fn reconcile(&self, subject: &Subject) -> Reconciled {
        match subject {
            Subject::Claim(name) => self.claim(name).await,
            Subject::Pod(name) => {
                let pod = self.caches.pods.read().get(name);
                self.notices
                    .of_pod(name, pod.as_deref(), &self.caches)
                    .await;
                Ok(Requeue::OnEvent)
            }
        }
    }
}

impl PvcProvisionerReconciler {
    async fn claim(&self, name: &ObjectName) -> Reconciled {
        let Ok(claim) = self.caches.claim(name) else {
            return Ok(Requeue::OnEvent);
        };
        let users = if depends_on_users(claim.as_deref(), &self.options.controller_id) {
            self.caches.users(name).await
        } else {
            Vec::new()
        };
        let view = self.view(name, claim.as_deref(), &users);
        let decision = decide(view.clone(), self.rule_options());
        match (self.follow(name, &view, decision), claim.as_ref()) {
            (ControlFlow::Break(requeue), _) => Ok(requeue),
            (ControlFlow::Continue(Unconfirmed), None) => self.confirm_absence(name, &users).await,
            (ControlFlow::Continue(Unconfirmed), claim) => {
                self.confirm_users(name, claim, &users).await
            }
        }
    }

    fn rule_options(&self) -> RuleOptions<'_> {
        RuleOptions {
            controller_id: &self.options.controller_id,
            grace: self.options.orphan_grace,
            admission_only: self.options.authorizes(),
        }
    }

    fn view<'a>(&self, name: &ObjectName, claim: Option<&'a Claim>, users: &'a [User]) -> View<'a> {
        View {
            claim,
            users,
            wait: self.wait(name, claim),
        }
    }

    fn wait(&self, name: &ObjectName, claim: Option<&Claim>) -> Wait {
        let marked = |claim: &&Claim| is_marked(claim, &self.options.controller_id);
        match claim.filter(marked) {
            Some(claim) => self.waiting.observe(name, claim),
            None => {
                self.waiting.forget(name);
                Wait::default()
            }
        }
    }

    /// Forgets claims that have lost their marker or were deleted, pods that were deleted while
    /// another replica led, and the notices about claims that no pod names any more.
    fn forget_deleted(&self) {
        {
            let claims = self.caches.claims.read();
            let marked = |claim: Arc<Claim>| is_marked(&claim, &self.options.controller_id);
            self.waiting
                .retain(|name| claims.get(name).is_some_and(marked));
        }
        let pods = self.caches.pods.read();
        self.notices.retain(
            |pod| pods.get(pod).is_some(),
            |claim| !pods.is_unreferenced(claim),
        );
    }

    /// Confirms by a live read that the claim is absent, and then its pods as
    /// [`Self::confirm_users`] does. The live read is needed because the watch of claims may be
    /// behind the watch of pods. A request to create an existing claim is not sent, although the
    /// API server would answer with a conflict: a quota that the claim exhausts would refuse the
    /// request first.
    async fn confirm_absence(&self, name: &ObjectName, users: &[User]) -> Reconciled {
        let live = self
            .live_claims
            .get(name, GET_LIMIT)
            .await
            .map_err(ReconcileError::unread("the claim"))?;
        if live.is_some() {
            // The watch delivers the claim, which triggers another reconcile. If it ended, and a
            // new LIST lacks the claim, all candidates are reconciled again.
            return Ok(Requeue::OnEvent);
        }
        self.confirm_users(name, None, users).await
    }

    /// Reads live which pods name the claim, decides again, and carries out that decision. If one
    /// GET shows that the pod which the watches choose is still the one to choose, that GET is
    /// enough, however many pods its namespace has. Otherwise a LIST of pods is required, which can
    /// also show that no pod names the claim.
    async fn confirm_users(
        &self,
        name: &ObjectName,
        claim: Option<&Arc<Claim>>,
        users: &[User],
    ) -> Reconciled {
        let known = self.view(name, claim.map(|claim| &**claim), users);
        let (users, proof) = match self.live_candidate(name, &known).await? {
            Some(live) => (with_live(users, live), None),
            None => {
                let pods = self.live_users(name).await?;
                let proof = pods.proof(MAX_AGE);
                (pods.value, Some(proof))
            }
        };
        let live = View {
            users: &users,
            ..known
        };
        let decision = decide_live(live.clone(), self.rule_options());
        match self.follow(name, &live, decision) {
            ControlFlow::Continue(step) => self.act(name, claim, &live, step, proof).await,
            ControlFlow::Break(requeue) => Ok(requeue),
        }
    }

    async fn live_candidate(
        &self,
        name: &ObjectName,
        known: &View<'_>,
    ) -> Result<Option<User>, ReconcileError> {
        let Some(candidate) = known.candidate() else {
            return Ok(None);
        };
        let pod = ObjectName::new(name.namespace.clone(), &*candidate.name);
        let live = self
            .live_pod
            .get(&pod, GET_LIMIT)
            .await
            .map_err(ReconcileError::unread("the pod"))?;
        let live = live.map(|live| self.caches.requesting_user(&pod, &live, name));
        Ok(live.filter(|live| known.is_still_candidate(live)))
    }

    async fn live_users(&self, claim: &ObjectName) -> Result<Evidence<Vec<User>>, ReconcileError> {
        let pods = self.live_pods.list(&claim.namespace).await;
        let pods = pods
            .map_err(|error| ReconcileError::new(format!("pods could not be listed: {error}")))?;
        let users = self.caches.users_in(&pods.value, claim).await;
        Ok(pods.map(|_| users))
    }
}

/// The users with one of them as it was read live.
fn with_live(users: &[User], live: User) -> Vec<User> {
    let others = users.iter().filter(|user| user.uid != live.uid).cloned();
    let mut users: Vec<_> = others.collect();
    users.push(live);
    users
}
