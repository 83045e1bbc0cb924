//! The first of the two live evaluations that precede the deletion of a claim.

use crate::{
    hashing::HashMap,
    objects::{CompactText, ObjectName},
};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Age at which the first live evaluation no longer counts: the claim is evaluated twice again.
pub const EVALUATION_EXPIRES: Duration = Duration::from_secs(600);

/// When live evaluations first showed that claims are due.
#[derive(Default)]
pub struct FirstEvaluations(Mutex<HashMap<ObjectName, FirstEvaluation>>);

struct FirstEvaluation {
    uid: CompactText,
    at: Instant,
}

impl FirstEvaluations {
    /// Records that a live evaluation shows now that the claim is due.
    pub fn record(&self, name: &ObjectName, uid: &CompactText) {
        let evaluation = FirstEvaluation {
            uid: uid.clone(),
            at: Instant::now(),
        };
        self.0.lock().insert(name.clone(), evaluation);
    }

    /// Returns when a live evaluation first showed that the claim with this uid is due; none if
    /// that has not happened in the last ten minutes.
    pub fn first(&self, name: &ObjectName, uid: &CompactText) -> Option<Instant> {
        let mut first_evaluations = self.0.lock();
        first_evaluations.retain(|_, evaluation| evaluation.at.elapsed() < EVALUATION_EXPIRES);
        let evaluation = first_evaluations
            .get(name)
            .filter(|evaluation| evaluation.uid == *uid);
        evaluation.map(|evaluation| evaluation.at)
    }

    /// Forgets the claim, so that it no longer counts as waiting for its second evaluation.
    pub fn forget(&self, name: &ObjectName) {
        self.0.lock().remove(name);
    }

    /// Returns how many claims wait for their second live evaluation.
    pub fn waiting(&self) -> usize {
        self.0.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_first_evaluation_counts_for_its_uid_and_for_ten_minutes() {
        let evaluations = FirstEvaluations::default();
        let name = ObjectName::new("shop", "data");
        let first = |uid: &str| evaluations.first(&name, &uid.into()).is_some();
        evaluations.record(&name, &"1".into());
        assert!(!first("2"), "another claim has the name");
        tokio::time::advance(EVALUATION_EXPIRES - Duration::from_secs(1)).await;
        assert!(first("1"));
        assert_eq!(evaluations.waiting(), 1);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!first("1"), "ten minutes have passed");
        assert_eq!(evaluations.waiting(), 0);
    }
}
