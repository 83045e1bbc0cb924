//! Lanes of the writer: each has its own permits, so that bulk work never delays a write that
//! saves data.

use super::fair_semaphore::FairSemaphore;
use super::fair_semaphore::Permit;
use std::sync::Arc;

/// How urgent a write is, and with which others it shares permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Writes that keep data: owner references and marks removed, finalizers added. The garbage
    /// collector does not wait for them.
    Safety,
    /// Owner references and marks added, objects created: a pod waits for them.
    Ownership,
    /// Volumes labelled and released.
    Release,
    /// Writes that occur in thousands and that nothing waits for: finalizers removed, objects
    /// deleted.
    Bulk,
}

/// Permits of each lane but [`Lane::Bulk`]. These writes are few: one for each claim that is
/// scaled, created or released.
const SMALL: usize = 16;

/// The permits of all lanes.
pub(crate) struct Lanes {
    safety: Arc<FairSemaphore>,
    ownership: Arc<FairSemaphore>,
    release: Arc<FairSemaphore>,
    bulk: Arc<FairSemaphore>,
}

impl Lanes {
    /// `bulk` permits for [`Lane::Bulk`], and as many but at most [`SMALL`] for each of the
    /// others.
    pub(crate) fn new(bulk: usize) -> Self {
        let small = || FairSemaphore::new(bulk.min(SMALL));
        Self {
            safety: small(),
            ownership: small(),
            release: small(),
            bulk: FairSemaphore::new(bulk),
        }
    }

    /// Waits for a permit of the lane, in turn with other namespaces. Objects without a namespace
    /// share an empty one.
    pub(crate) async fn permit(&self, lane: Lane, namespace: &Arc<str>) -> Permit {
        let permits = match lane {
            Lane::Safety => &self.safety,
            Lane::Ownership => &self.ownership,
            Lane::Release => &self.release,
            Lane::Bulk => &self.bulk,
        };
        permits.acquire(namespace).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    async fn free(lanes: &Lanes, lane: Lane) -> usize {
        let (namespace, mut permits) = (Arc::from("ns"), Vec::new());
        while let Ok(permit) = timeout(Duration::ZERO, lanes.permit(lane, &namespace)).await {
            permits.push(permit);
        }
        permits.len()
    }

    /// The bound that the help of `--max-in-flight` and the README state.
    #[tokio::test(start_paused = true)]
    async fn each_lane_has_permits_of_its_own() {
        for (bulk, small) in [(32, 16), (4, 4)] {
            let lanes = Lanes::new(bulk);
            let namespace: Arc<str> = "ns".into();
            let mut taken = Vec::new();
            for _ in 0..bulk {
                taken.push(lanes.permit(Lane::Bulk, &namespace).await);
            }
            assert_eq!(free(&lanes, Lane::Bulk).await, 0);
            for lane in [Lane::Safety, Lane::Ownership, Lane::Release] {
                assert_eq!(free(&lanes, lane).await, small, "{lane:?}");
            }
            drop(taken);
            assert_eq!(free(&lanes, Lane::Bulk).await, bulk);
        }
    }
}
