//! The reconciler: the same rule for what admission missed, owners for what it made, an end for what nobody came for.

use super::{
    Caches, NAME, Options, Subject,
    caches::{asker, users},
    metrics,
    notices::Notices,
    rule::{Decision, Terms, User, View, Wait, awaits_pod, decide, depends_on_users},
    triggers,
    waiting::Waiting,
};
use crate::{
    cluster::{Apply, Evidence, LiveGet, Reconcile, Retry, SharedList, WorkQueue},
    objects::{Claim, ObjectName, Pod},
    telemetry::Metrics,
};
use std::{slice::from_ref, sync::Arc, time::Duration};

const GET_LIMIT: Duration = Duration::from_secs(10);
/// Maximum age of a LIST of pods for a claim to be deleted by it.
const MAX_AGE: Duration = Duration::from_secs(10);

/// What the reconciler works with.
pub struct PvcProvisionerReconciler {
    /// The watches.
    pub caches: Caches,
    /// For a claim that is missing.
    pub live_claims: Arc<LiveGet<Claim>>,
    /// For a pod that a claim is made for, or given to.
    pub live_pod: Arc<LiveGet<Pod>>,
    /// For pods of which none may name a claim.
    pub live_pods: Arc<SharedList<Pod>>,
    /// The writer.
    pub apply: Arc<Apply>,
    /// What may be chosen.
    pub options: Arc<Options>,
    /// What users were told.
    pub notices: Notices,
    /// What is remembered of claims that await their pods.
    pub waiting: Waiting,
}

impl PvcProvisionerReconciler {
    /// Puts in line whatever may need work.
    pub fn listen(&self, queue: &Arc<WorkQueue<Subject>>) {
        triggers::listen(&self.caches, &self.options.controller_id, queue);
    }

    /// Registers the metrics of this component.
    pub fn register_metrics(&self, metrics: &Metrics) {
        let controller_id = self.options.controller_id.clone();
        metrics::register(metrics, self.caches.clone(), controller_id);
    }
}

impl Reconcile for PvcProvisionerReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = Subject;

    fn candidates(&self) -> Vec<Subject> {
        self.forget_what_went();
        triggers::candidates(&self.caches, &self.options.controller_id)
    }

    async fn reconcile(&self, subject: &Subject) -> Result<(), Retry> {
        match subject {
            Subject::Claim(name) => self.claim(name).await,
            Subject::Pod(name) => {
                let pod = self.caches.pods.read().get(name);
                self.notices.of_pod(name, pod.as_deref(), &self.caches);
                Ok(())
            }
        }
    }
}

impl PvcProvisionerReconciler {
    async fn claim(&self, name: &ObjectName) -> Result<(), Retry> {
        let Ok(claim) = self.caches.claim(name) else {
            return Ok(());
        };
        let users = match depends_on_users(claim.as_deref(), &self.options.controller_id) {
            true => self.caches.users(name),
            false => Vec::new(),
        };
        let view = self.view(name, claim.as_deref(), &users, false);
        match (self.decide(view), &claim) {
            (Decision::Confirm, None) => self.confirm_absence(name, &users).await,
            (Decision::Confirm, claim) => self.confirm_users(name, claim.as_ref(), &users).await,
            (decision, claim) => self.act(name, claim.as_ref(), decision, None).await,
        }
    }

    fn decide<'a>(&self, view: View<'a>) -> Decision<'a> {
        let terms = Terms {
            controller_id: &self.options.controller_id,
            grace: self.options.orphan_grace,
            admission_only: self.options.authorizes(),
        };
        decide(view, terms)
    }

    fn view<'a>(
        &self,
        name: &ObjectName,
        claim: Option<&'a Claim>,
        users: &'a [User],
        confirmed: bool,
    ) -> View<'a> {
        View {
            claim,
            users,
            confirmed,
            wait: self.wait(name, claim),
        }
    }

    fn wait(&self, name: &ObjectName, claim: Option<&Claim>) -> Wait {
        let awaits = |claim: &&Claim| awaits_pod(claim, &self.options.controller_id);
        match claim.filter(awaits) {
            Some(claim) => self.waiting.look(name, claim),
            None => {
                self.waiting.forget(name);
                Wait::default()
            }
        }
    }

    /// What went while another replica led.
    fn forget_what_went(&self) {
        {
            let claims = self.caches.claims.read();
            self.waiting.retain(|name| claims.get(name).is_some());
        }
        let pods = self.caches.pods.read();
        self.notices.retain(
            |pod| pods.get(pod).is_some(),
            |claim| !pods.names_referring_to(claim).is_empty(),
        );
    }

    /// The watch of claims may be behind that of pods. A claim that exists is not asked for again, not even to be told so: a quota that this
    /// very claim exhausts would refuse it first.
    async fn confirm_absence(&self, name: &ObjectName, users: &[User]) -> Result<(), Retry> {
        let live = self.live_claims.get(name, GET_LIMIT).await;
        let live =
            live.map_err(|error| Retry::new(format!("the claim could not be read: {error}")))?;
        if live.is_some() {
            // The watch will tell, and then it is looked at again.
            return Ok(());
        }
        self.confirm_users(name, None, users).await
    }

    /// To know that a pod is there takes one read of it, however many others its namespace has; to know that none is takes them all.
    async fn confirm_users(
        &self,
        name: &ObjectName,
        claim: Option<&Arc<Claim>>,
        users: &[User],
    ) -> Result<(), Retry> {
        let known = self.view(name, claim.map(|claim| &**claim), users, true);
        let (users, proof) = match self.live_candidate(name, &known).await? {
            Some(user) => (vec![user], None),
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
        self.act(name, claim, self.decide(live), proof).await
    }

    async fn live_candidate(
        &self,
        name: &ObjectName,
        known: &View<'_>,
    ) -> Result<Option<User>, Retry> {
        let Some(candidate) = known.candidate() else {
            return Ok(None);
        };
        let pod = ObjectName::new(name.namespace.clone(), &*candidate.name);
        let live = self.live_pod.get(&pod, GET_LIMIT).await;
        let live =
            live.map_err(|error| Retry::new(format!("the pod could not be read: {error}")))?;
        let live = live.map(|live| asker(&pod, &live, name));
        Ok(live.filter(|live| {
            let alone = View {
                users: from_ref(live),
                ..known.clone()
            };
            live.uid == candidate.uid && alone.candidate().is_some()
        }))
    }

    async fn live_users(&self, claim: &ObjectName) -> Result<Evidence<Vec<User>>, Retry> {
        let pods = self.live_pods.list(&claim.namespace).await;
        let pods =
            pods.map_err(|error| Retry::new(format!("pods could not be listed: {error}")))?;
        Ok(pods.map(|pods| users(&pods, claim)))
    }
}
