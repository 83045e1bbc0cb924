//! For how long each claim that awaits its pod has been known here.
//!
//! By our own clock and from our own first look, because the clock that wrote the mark is another machine's; and so a claim that was
//! there before us has the whole grace before it.

use crate::objects::ObjectName;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

type Since = HashMap<ObjectName, (Box<str>, Instant)>;

/// See the module.
#[derive(Debug, Default)]
pub struct Waiting {
    since: Mutex<Since>,
}

impl Waiting {
    /// For how long the claim of that name and uid has been waiting, from the first time this was asked.
    pub fn waited(&self, name: &ObjectName, uid: &str) -> Duration {
        let mut since = self.lock();
        let known = since.get(name).filter(|(known, _)| **known == *uid);
        if let Some((_, since)) = known {
            return since.elapsed();
        }
        since.insert(name.clone(), (uid.into(), Instant::now()));
        Duration::ZERO
    }

    /// The claim does not wait any more.
    pub fn forget(&self, name: &ObjectName) {
        self.lock().remove(name);
    }

    /// Forgets all others.
    pub fn retain(&self, waits: impl Fn(&ObjectName) -> bool) {
        self.lock().retain(|name, _| waits(name));
    }

    fn lock(&self) -> MutexGuard<'_, Since> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_claim_waits_from_when_it_was_first_looked_at() {
        let (waiting, name) = (Waiting::default(), ObjectName::new("ns", "c"));
        let minute = Duration::from_secs(60);
        assert_eq!(waiting.waited(&name, "1"), Duration::ZERO);
        tokio::time::advance(minute).await;
        assert_eq!(waiting.waited(&name, "1"), minute);
        assert_eq!(waiting.waited(&name, "2"), Duration::ZERO, "another claim");
        tokio::time::advance(minute).await;
        waiting.forget(&name);
        assert_eq!(waiting.waited(&name, "2"), Duration::ZERO);
        waiting.retain(|each| *each != name);
        assert!(waiting.lock().is_empty());
    }
}
