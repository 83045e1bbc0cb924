//! Claims that were created at admission for pods that then did not come to exist.
//!
//! Other validating webhooks, and quotas, may refuse a pod after its claims were created. The
//! controller of the pod retries, so a claim is created and deleted again and again, and perhaps a
//! volume each time. After five such claims in a row, admission creates no claim for pods of that
//! controller until a delay has passed, which doubles with each further such claim, up to an hour.
//! During the delay, the reconciler creates the claim once a pod exists.
//!
//! Each replica counts the claims that it creates. What it counts is lost with the process.

use super::Caches;
use crate::{cluster::doubling, hashing::HashMap, objects::ObjectName};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Number of claims in a row, created for pods of one controller that did not come to exist, from
/// which admission delays further claims.
const FAILURE_THRESHOLD: u32 = 5;
/// Delay after the last of [`FAILURE_THRESHOLD`] claims whose pods did not come to exist. It
/// doubles with each further such claim.
const FIRST_DELAY: Duration = Duration::from_secs(120);
/// Maximum delay before admission creates a claim for a pod of the same controller again.
const LONGEST_DELAY: Duration = Duration::from_secs(3600);
/// A pod counts as refused if the watch has not delivered it this long after its claim was
/// created.
const POD_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a controller is remembered after admission last created a claim for one of its pods.
const REMEMBERED: Duration = Duration::from_secs(7200);
/// Maximum number of controllers and of claims that are remembered. Beyond it, further claims are
/// created but not counted.
const MAX_ENTRIES: usize = 4096;

/// The controller of a pod, as the owner references of the pod name it. The author of the pod may
/// write any uid, so controllers of two namespaces are never the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    namespace: Box<str>,
    uid: Box<str>,
}

impl Controller {
    /// The controller with this uid of a pod in the namespace.
    pub fn new(namespace: &str, uid: &str) -> Self {
        Self {
            namespace: namespace.into(),
            uid: uid.into(),
        }
    }
}

/// Counts, for each controller, the claims in a row that admission created for pods that did not
/// come to exist, and decides whether admission may create the next claim.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    controllers: HashMap<Controller, ControllerAttempts>,
    /// The claims whose pods have not been seen yet, with the time of the claim's creation.
    claims: HashMap<ObjectName, (Controller, Instant)>,
}

#[derive(Debug)]
struct ControllerAttempts {
    /// For how many claims in a row no pod came to exist.
    refused: u32,
    /// When the last claim was created.
    last: Instant,
}

impl ControllerAttempts {
    fn blocked_until(&self) -> Option<Instant> {
        let more = self.refused.checked_sub(FAILURE_THRESHOLD)?;
        Some(self.last + doubling(FIRST_DELAY, LONGEST_DELAY, more + 1))
    }
}

impl Attempts {
    /// Starts with empty counts, and learns from the watch of pods which pods exist.
    pub fn watching(caches: &Caches) -> Arc<Self> {
        let attempts = Arc::new(Self::default());
        let seen = attempts.clone();
        caches.pods.listen(move |change| {
            let Some(pod) = change.new.filter(|_| change.old.is_none()) else {
                return;
            };
            let namespace = &change.name.namespace;
            let claims = pod.claims().cloned();
            let names = claims.map(|claim| ObjectName::new(namespace.clone(), claim));
            names.for_each(|claim| seen.seen(&claim));
        });
        attempts
    }

    /// Returns whether admission may create a claim for a pod of this controller now.
    pub fn permit(&self, controller: &Controller) -> bool {
        let now = Instant::now();
        let mut memory = self.0.lock();
        memory.expire(now);
        let until = memory.controllers.get(controller);
        until
            .and_then(ControllerAttempts::blocked_until)
            .is_none_or(|until| until <= now)
    }

    /// Records that admission created the claim for a pod of this controller.
    pub fn created(&self, controller: &Controller, claim: &ObjectName) {
        let now = Instant::now();
        let mut memory = self.0.lock();
        memory.expire(now);
        if memory.claims.len() >= MAX_ENTRIES || memory.controllers.len() >= MAX_ENTRIES {
            return;
        }
        let first = ControllerAttempts {
            refused: 0,
            last: now,
        };
        let record = memory.controllers.entry(controller.clone());
        record.or_insert(first).last = now;
        memory
            .claims
            .insert(claim.clone(), (controller.clone(), now));
    }

    /// Records that a pod which names the claim exists. If the claim is not yet counted as one of
    /// a refused pod, the counts of its controller are reset.
    pub fn seen(&self, claim: &ObjectName) {
        let mut memory = self.0.lock();
        if let Some((controller, _)) = memory.claims.remove(claim) {
            memory.controllers.remove(&controller);
        }
    }
}

impl Memory {
    /// Counts each claim whose pod was not seen within [`POD_TIMEOUT`] as refused, and forgets the
    /// controllers for whose pods admission has created no claim for [`REMEMBERED`].
    fn expire(&mut self, now: Instant) {
        let Self {
            controllers,
            claims,
        } = self;
        claims.retain(|_, (controller, created)| {
            let waits = now.duration_since(*created) < POD_TIMEOUT;
            if !waits && let Some(record) = controllers.get_mut(controller) {
                record.refused = record.refused.saturating_add(1);
            }
            waits
        });
        controllers.retain(|_, record| now.duration_since(record.last) < REMEMBERED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    fn claim(index: usize) -> ObjectName {
        ObjectName::new("ns", format!("claim-{index}"))
    }

    fn web() -> Controller {
        Controller::new("ns", "web")
    }

    /// Creates a claim whose pod is refused, and waits until that is known.
    async fn refused(attempts: &Attempts, index: usize) {
        assert!(attempts.permit(&web()), "claim {index}");
        attempts.created(&web(), &claim(index));
        advance(POD_TIMEOUT).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_whose_pods_are_refused_gets_claims_ever_more_rarely() {
        let attempts = Attempts::default();
        for index in 0..5 {
            refused(&attempts, index).await;
        }
        for minutes in [2, 4, 8, 16, 32, 60, 60] {
            assert!(!attempts.permit(&web()), "{minutes}");
            for (namespace, uid) in [("ns", "other"), ("another", "web")] {
                let other = Controller::new(namespace, uid);
                assert!(attempts.permit(&other), "{other:?}");
            }
            advance(Duration::from_secs(minutes * 60) - POD_TIMEOUT - Duration::from_secs(1)).await;
            assert!(!attempts.permit(&web()), "{minutes}");
            advance(Duration::from_secs(1)).await;
            refused(&attempts, 5).await;
        }
        advance(REMEMBERED).await;
        assert!(attempts.permit(&web()));
        assert!(attempts.0.lock().controllers.is_empty(), "forgotten");
    }

    /// One pod that exists shows that pods of this controller are not refused in general.
    #[tokio::test(start_paused = true)]
    async fn a_pod_that_exists_ends_the_delay() {
        let attempts = Attempts::default();
        for index in 0..5 {
            refused(&attempts, index).await;
        }
        attempts.seen(&claim(0));
        assert!(!attempts.permit(&web()), "it was counted before");
        advance(FIRST_DELAY).await;
        attempts.created(&web(), &claim(5));
        attempts.seen(&claim(5));
        for index in 6..11 {
            refused(&attempts, index).await;
        }
        assert!(!attempts.permit(&web()), "five more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_pods_is_not_refused_before_they_can_be_seen() {
        let attempts = Attempts::default();
        for index in 0..100 {
            assert!(attempts.permit(&web()), "claim {index}");
            attempts.created(&web(), &claim(index));
        }
        (0..100).for_each(|index| attempts.seen(&claim(index)));
        advance(POD_TIMEOUT).await;
        assert!(attempts.permit(&web()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_is_bounded() {
        let attempts = Attempts::default();
        for index in 0..2 * MAX_ENTRIES {
            let controller = Controller::new("ns", &index.to_string());
            attempts.created(&controller, &claim(index));
        }
        assert_eq!(attempts.0.lock().claims.len(), MAX_ENTRIES);
        assert_eq!(attempts.0.lock().controllers.len(), MAX_ENTRIES);
    }
}
