//! Limits the purges of an hour. Those that users requested come first.

use crate::{
    cluster::{HourlyLimit, Slot},
    objects::ObjectName,
};
use parking_lot::Mutex;
use std::{collections::BTreeSet, time::Duration};

/// Delay of a purge that no user requested, while requested purges wait for the limit.
const REQUESTED_FIRST_DELAY: Duration = Duration::from_secs(10);

/// The purges of the last hour, and the requested ones that wait.
pub struct PurgeLimit {
    limit: HourlyLimit,
    /// The volumes whose purge a user requested, and for which `reserve` found the limit reached.
    waiting: Mutex<BTreeSet<ObjectName>>,
}

impl PurgeLimit {
    /// Permits `limit` purges in any hour.
    pub fn new(limit: u64) -> Self {
        Self {
            limit: HourlyLimit::new(limit),
            waiting: Mutex::default(),
        }
    }

    /// Reserves a place within the limit. While requested purges wait for the limit, a purge that
    /// no user requested gets no place.
    ///
    /// # Errors
    /// How long to wait.
    pub fn reserve(&self, volume: &ObjectName, requested: bool) -> Result<Slot<'_>, Duration> {
        let mut waiting = self.waiting.lock();
        waiting.remove(volume);
        if !requested && !waiting.is_empty() {
            return Err(REQUESTED_FIRST_DELAY);
        }
        let reserved = self.limit.reserve();
        if requested && reserved.is_err() {
            waiting.insert(volume.clone());
        }
        reserved
    }

    /// Forgets that a requested purge of the volume waits. `reserve` records it again if the limit
    /// is still reached.
    pub fn forget(&self, volume: &ObjectName) {
        self.waiting.lock().remove(volume);
    }

    /// Forgets the requested purges of volumes for which `exists` returns false.
    pub fn retain(&self, exists: impl Fn(&ObjectName) -> bool) {
        self.waiting.lock().retain(exists);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn named(name: &str) -> ObjectName {
        ObjectName::cluster_scoped(name)
    }

    /// A limit of one purge, which is used up while a requested purge waits.
    fn reached() -> PurgeLimit {
        let limit = PurgeLimit::new(1);
        let first = limit.reserve(&named("first"), false);
        first.expect("within the limit").count();
        let wait = limit.reserve(&named("requested"), true).err();
        assert_eq!(wait, Some(HOUR));
        limit
    }

    #[tokio::test(start_paused = true)]
    async fn a_requested_purge_comes_before_those_that_are_due() {
        let limit = reached();
        tokio::time::advance(HOUR).await;
        for _ in 0..2 {
            assert_eq!(
                limit.reserve(&named("due"), false).err(),
                Some(REQUESTED_FIRST_DELAY)
            );
        }
        let requested = limit.reserve(&named("requested"), true);
        requested.expect("its turn").count();
        tokio::time::advance(HOUR).await;
        assert!(limit.reserve(&named("due"), false).is_ok());
    }

    /// A requested purge that fails, for example because its volume is attached, does not delay
    /// other purges.
    #[tokio::test(start_paused = true)]
    async fn a_requested_purge_that_fails_or_ends_holds_up_no_other() {
        let limit = reached();
        tokio::time::advance(HOUR).await;
        drop(limit.reserve(&named("requested"), true).expect("its turn"));
        assert!(limit.reserve(&named("due"), false).is_ok());
        let limit = reached();
        tokio::time::advance(HOUR).await;
        limit.forget(&named("requested"));
        assert!(limit.reserve(&named("due"), false).is_ok());
        // The request was withdrawn, and the window has ended.
        let limit = reached();
        tokio::time::advance(HOUR).await;
        assert!(limit.reserve(&named("requested"), false).is_ok());
    }
}
