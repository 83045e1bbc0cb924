//! The reconciler of greeter: claims that the webhook missed.

use super::NAME;
use prometheus_client::metrics::counter::Counter;
use std::sync::Arc;
use volume_warden::{
    cluster::{
        Action, Apply, Basis, Feed, Lane, OnRefusal, Reconcile, Reconciled, Requeue, Target,
        WorkQueue,
    },
    objects::{
        Claim, Kind, ObjectName,
        finalizers::{append, has},
    },
};

pub struct GreeterReconciler {
    pub claims: Arc<Feed<Claim>>,
    pub apply: Arc<Apply>,
    pub greeting: Arc<str>,
    pub greetings: Counter,
}

impl GreeterReconciler {
    pub fn listen(&self, queue: &Arc<WorkQueue<ObjectName>>) {
        let queue = queue.clone();
        self.claims
            .listen(move |change| queue.add(change.name.clone()));
    }

    fn lacks_greeting(&self, claim: &Claim) -> bool {
        !claim.deleting && !has(&claim.finalizers, &self.greeting)
    }
}

impl Reconcile for GreeterReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = ObjectName;

    fn candidates(&self) -> Vec<ObjectName> {
        self.claims
            .read()
            .names_where(|claim| self.lacks_greeting(claim))
    }

    async fn reconcile(&self, name: &ObjectName) -> Reconciled {
        let claim = self.claims.read().get_fresh(name);
        let Some(claim) = claim.filter(|claim| self.lacks_greeting(claim)) else {
            return Ok(Requeue::OnEvent);
        };
        let target = Target {
            kind: Kind::PersistentVolumeClaim,
            name,
            uid: claim.uid.clone(),
            resource_version: Some(claim.resource_version.clone()),
            finalizers: &claim.finalizers,
        };
        let operations = vec![append(&claim.finalizers, &self.greeting)];
        let refusal = OnRefusal::new("FailedGreeting");
        let action = Action::patch("Greet", Lane::Ownership, operations, Basis::Object, refusal);
        let applied = self.apply.perform(NAME, &target, action, "Greeted").await;
        if applied.written() {
            self.claims.mark_stale(name, &claim);
            self.greetings.inc();
        }
        applied.into_reconciled()
    }
}
