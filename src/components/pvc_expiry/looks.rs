//! The first of the two live evaluations that precede the deletion of a claim.

use crate::{
    hashing::HashMap,
    objects::{CompactText, ObjectName},
};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Age at which the first live evaluation no longer counts: the claim is evaluated twice again.
pub const LOOK_EXPIRES: Duration = Duration::from_secs(600);

/// When live evaluations first showed that claims are due.
#[derive(Default)]
pub struct Looks(Mutex<HashMap<ObjectName, Look>>);

struct Look {
    uid: CompactText,
    at: Instant,
}

impl Looks {
    /// Records that a live evaluation shows now that the claim is due.
    pub fn record(&self, name: &ObjectName, uid: &CompactText) {
        let look = Look {
            uid: uid.clone(),
            at: Instant::now(),
        };
        self.0.lock().insert(name.clone(), look);
    }

    /// Returns when a live evaluation first showed that the claim with this uid is due; none if that
    /// has not happened in the last ten minutes.
    pub fn first(&self, name: &ObjectName, uid: &CompactText) -> Option<Instant> {
        let mut looks = self.0.lock();
        looks.retain(|_, look| look.at.elapsed() < LOOK_EXPIRES);
        let look = looks.get(name).filter(|look| look.uid == *uid);
        look.map(|look| look.at)
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
