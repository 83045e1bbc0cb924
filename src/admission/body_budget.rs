//! Limits the memory for the bodies of admission reviews: 64 MiB for all webhook paths together.
//!
//! Each webhook path has a reserved part of 1 MiB for ordinary bodies, of up to 16 KiB, so that
//! these are read at once, however many large bodies clients send. Large bodies use the rest of the
//! 64 MiB. All paths share the rest, and one path may use at most 16 MiB of it.

use super::limits::CONCURRENT_REVIEWS;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The semaphores count memory in units of this many bytes.
const UNIT: usize = 1024;
/// Memory for the review bodies of all webhook paths, in units.
const TOTAL: usize = (64 << 20) / UNIT;
/// Memory reserved for the ordinary bodies of each webhook path, in units.
const OWN: usize = (1 << 20) / UNIT;
/// The largest ordinary body, in units: the reserved memory of a path suffices for all reviews that
/// may be under way on it. A review of a claim or pod has a few KiB.
const ORDINARY: usize = OWN / CONCURRENT_REVIEWS;
/// Part of the shared memory that one webhook path may use, in units.
const COMMON_OF_ONE: usize = (16 << 20) / UNIT;

/// The memory that one webhook path may use for review bodies.
pub(super) struct Share {
    own: Arc<Semaphore>,
    common_of_one: Arc<Semaphore>,
    common: Arc<Semaphore>,
}

/// Memory reserved for the body of one review; it is released when the grant is dropped.
pub(super) struct Grant {
    _permits: [Option<OwnedSemaphorePermit>; 2],
}

/// Divides the memory between `paths` webhook paths.
pub(super) fn shares(paths: usize) -> impl Iterator<Item = Share> {
    let common = TOTAL.saturating_sub(paths * OWN);
    let common = Arc::new(Semaphore::new(common));
    std::iter::repeat_with(move || Share {
        own: Arc::new(Semaphore::new(OWN)),
        common_of_one: Arc::new(Semaphore::new(COMMON_OF_ONE)),
        common: common.clone(),
    })
    .take(paths)
}

impl Share {
    /// Waits until there is room for a body of `bytes` bytes. Bodies are served in order of
    /// arrival, but an ordinary one never waits for a large one, and only if as many others have
    /// memory as may be under way.
    pub(super) async fn acquire(&self, bytes: usize) -> Grant {
        let units = bytes.div_ceil(UNIT);
        let is_ordinary = units <= ORDINARY;
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        // The semaphores are never closed, so acquiring a permit cannot fail.
        if is_ordinary {
            let own = self.own.clone().acquire_many_owned(units).await;
            let _permits = [own.ok(), None];
            return Grant { _permits };
        }
        // The permit for the limit of this path comes first: a body that waits for it holds none
        // of the shared memory.
        let of_one = self.common_of_one.clone().acquire_many_owned(units).await;
        let common = self.common.clone().acquire_many_owned(units).await;
        let _permits = [of_one.ok(), common.ok()];
        Grant { _permits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    const LARGEST: usize = 8 << 20;

    /// Returns the grants that `count` bodies of `bytes` bytes get without waiting.
    fn at_once(share: &Share, bytes: usize, count: usize) -> Vec<Grant> {
        let acquired = (0..count).map_while(|_| share.acquire(bytes).now_or_never());
        acquired.collect()
    }

    #[test]
    fn all_paths_together_stay_within_the_total() {
        let shares: Vec<_> = shares(11).collect();
        let mut sizes = Vec::new();
        let mut grants = Vec::new();
        for share in &shares {
            for bytes in [LARGEST, 100_000, 5_000] {
                let granted = at_once(share, bytes, 1000);
                sizes.push(granted.len() * bytes);
                grants.extend(granted);
            }
        }
        let sum: usize = sizes.iter().sum();
        assert!((48 << 20..=64 << 20).contains(&sum), "{sum}");
        drop(grants);
        assert_eq!(
            at_once(&shares[0], LARGEST, 1000).len(),
            2,
            "all is given back"
        );
    }

    #[test]
    fn ordinary_reviews_of_one_path_fit_whatever_the_others_hold() {
        let shares: Vec<_> = shares(11).collect();
        let _held: Vec<_> = shares[1..]
            .iter()
            .flat_map(|share| at_once(share, LARGEST, 1000))
            .collect();
        assert!(
            at_once(&shares[0], LARGEST, 1).is_empty(),
            "the rest is used up"
        );
        assert_eq!(at_once(&shares[0], 16 * 1024, 64).len(), 64);
    }

    #[test]
    fn one_path_leaves_room_for_large_bodies_of_others() {
        let shares: Vec<_> = shares(11).collect();
        let held: Vec<_> = shares[..3]
            .iter()
            .map(|share| at_once(share, LARGEST, 1000))
            .collect();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2]);
    }
}
