//! Remembers each claim that awaits its pod: when this process first saw it, when it last changed,
//! and which pod a live read showed to request it.
//!
//! Times are measured by the clock of this process, because another machine's clock wrote the
//! marker. Therefore a claim that existed before this process started gets the full grace period.
//! A new leader remembers nothing: a claim whose pod was deleted before is then deleted only after
//! the full grace period.

use super::view::Wait;
use crate::hashing::HashMap;
use crate::objects::{Claim, CompactText, ObjectName};
use parking_lot::Mutex;
use tokio::time::Instant;

type Memories = HashMap<ObjectName, Memory>;

/// Remembers the claims that await their pods, in memory only.
#[derive(Debug, Default)]
pub struct Waiting {
    memories: Mutex<Memories>,
}

#[derive(Debug)]
struct Memory {
    uid: CompactText,
    since: Instant,
    version: CompactText,
    unchanged_since: Instant,
    /// The uid of the last pod that a live read showed to request the claim.
    pod: Option<Box<str>>,
}

impl Memory {
    fn of(claim: &Claim) -> Self {
        let now = Instant::now();
        Self {
            uid: claim.uid.clone(),
            since: now,
            version: claim.resource_version.clone(),
            unchanged_since: now,
            pod: None,
        }
    }
}

impl Waiting {
    /// Returns what is remembered of the claim. The first call for a claim begins its record.
    pub fn observe(&self, name: &ObjectName, claim: &Claim) -> Wait {
        let mut memories = self.memories.lock();
        let memory = memories
            .entry(name.clone())
            .or_insert_with(|| Memory::of(claim));
        if memory.uid != claim.uid {
            *memory = Memory::of(claim);
        }
        if memory.version != claim.resource_version {
            memory.version = claim.resource_version.clone();
            memory.unchanged_since = Instant::now();
        }
        Wait {
            waited: memory.since.elapsed(),
            unchanged: memory.unchanged_since.elapsed(),
            seen: memory.pod.clone(),
        }
    }

    /// Records that the pod with the uid `pod` requests the claim. Returns whether the pod recorded
    /// last was another one, or none was; false for a claim without a record.
    pub fn record_pod(&self, name: &ObjectName, claim: &Claim, pod: &str) -> bool {
        let mut memories = self.memories.lock();
        let memory = memories.get_mut(name).filter(|each| each.uid == claim.uid);
        let before = memory.map(|memory| memory.pod.replace(pod.into()));
        before.is_some_and(|before| before.as_deref() != Some(pod))
    }

    /// Removes the record of a claim that does not await its pod any more.
    pub fn forget(&self, name: &ObjectName) {
        self.memories.lock().remove(name);
    }

    /// Removes the records of all claims for which `waits` returns false.
    pub fn retain(&self, waits: impl Fn(&ObjectName) -> bool) {
        self.memories.lock().retain(|name, _| waits(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::claim::ClaimWire;
    use serde_json::json;
    use std::time::Duration;

    fn claim(uid: &str, version: &str) -> Claim {
        let metadata = json!({"name": "c", "uid": uid, "resourceVersion": version});
        let claim = serde_json::from_value::<ClaimWire>(json!({"metadata": metadata}));
        claim.expect("a claim").into()
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_begins_when_the_claim_is_first_seen() {
        let (waiting, name) = (Waiting::default(), ObjectName::new("ns", "c"));
        let observe = |uid, version| {
            let wait = waiting.observe(&name, &claim(uid, version));
            (wait.waited.as_secs(), wait.unchanged.as_secs())
        };
        let minute = || tokio::time::advance(Duration::from_secs(60));
        assert_eq!(observe("1", "1"), (0, 0));
        minute().await;
        assert_eq!(observe("1", "1"), (60, 60));
        minute().await;
        assert_eq!(observe("1", "2"), (120, 0), "it has changed");
        minute().await;
        assert_eq!(observe("1", "2"), (180, 60));
        assert_eq!(observe("2", "3"), (0, 0), "another claim");
        minute().await;
        waiting.forget(&name);
        assert_eq!(observe("2", "3"), (0, 0));
        waiting.retain(|each| *each != name);
        assert!(waiting.memories.lock().is_empty());
    }

    #[tokio::test]
    async fn record_pod_returns_true_once_per_pod() {
        let (waiting, name) = (Waiting::default(), ObjectName::new("ns", "c"));
        let (first, second) = (claim("1", "1"), claim("2", "2"));
        assert_eq!(waiting.observe(&name, &first).seen, None);
        assert!(waiting.record_pod(&name, &first, "pod"));
        assert!(!waiting.record_pod(&name, &first, "pod"));
        assert!(waiting.record_pod(&name, &first, "another pod"));
        let seen = waiting.observe(&name, &first).seen;
        assert_eq!(seen.as_deref(), Some("another pod"));
        assert!(!waiting.record_pod(&name, &second, "pod"), "not observed");
        assert_eq!(waiting.observe(&name, &second).seen, None, "another claim");
    }
}
