//! Lanes of the writer. Each lane has its own permits, so that bulk writes never delay a write that
//! protects data.

use crate::cluster::api::{FairSemaphore, Permit};
use std::sync::Arc;

/// How urgent a write is, and with which writes it shares permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Writes that protect data: they remove owner references and markers because of which an
    /// object would be deleted, add finalizers, or set the reclaim policy Retain. They are urgent
    /// because the controllers that delete objects do not wait for them.
    Safety,
    /// Writes that add owner references and markers, or create claims that a pod waits for.
    Ownership,
    /// Writes for the reuse and the trash of volumes: for example, they label, release, reserve or
    /// restore volumes.
    Release,
    /// Writes that occur in thousands and that nothing waits for, such as those that remove
    /// finalizers or delete objects.
    Bulk,
    /// Writes of the condition Unused of claims: thousands, which nothing waits for and for which
    /// no other write may wait.
    Conditions,
}

/// Maximum number of permits of each lane except [`Lane::Bulk`]. The writes of these lanes are
/// usually few, such as one for each claim that is created or released, except those of
/// [`Lane::Conditions`], for which nothing waits.
const SMALL: usize = 16;

/// The permits, separate for each lane, for which every background write waits.
pub(crate) struct Lanes {
    safety: Arc<FairSemaphore>,
    ownership: Arc<FairSemaphore>,
    release: Arc<FairSemaphore>,
    bulk: Arc<FairSemaphore>,
    conditions: Arc<FairSemaphore>,
}

impl Lanes {
    /// Creates `bulk` permits for [`Lane::Bulk`], and the same number but at most [`SMALL`] for
    /// each other lane.
    pub(crate) fn new(bulk: usize) -> Self {
        let small = || FairSemaphore::new(bulk.min(SMALL));
        Self {
            safety: small(),
            ownership: small(),
            release: small(),
            bulk: FairSemaphore::new(bulk),
            conditions: small(),
        }
    }

    /// Waits for a permit of the lane, in turn with other namespaces. Cluster-scoped objects count
    /// as one namespace with an empty name.
    pub(crate) async fn permit(&self, lane: Lane, namespace: &Arc<str>) -> Permit {
        let permits = match lane {
            Lane::Safety => &self.safety,
            Lane::Ownership => &self.ownership,
            Lane::Release => &self.release,
            Lane::Bulk => &self.bulk,
            Lane::Conditions => &self.conditions,
        };
        permits.acquire(namespace).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    const ALL: [Lane; 5] = [
        Lane::Safety,
        Lane::Ownership,
        Lane::Release,
        Lane::Bulk,
        Lane::Conditions,
    ];
    /// The default of `--max-in-flight`.
    const DEFAULT: usize = 32;

    async fn free(lanes: &Lanes, lane: Lane) -> usize {
        let (namespace, mut permits) = (Arc::from("ns"), Vec::new());
        while let Ok(permit) = timeout(Duration::ZERO, lanes.permit(lane, &namespace)).await {
            permits.push(permit);
        }
        permits.len()
    }

    /// The total is in the page about sizing, and the lanes are in the glossary.
    #[tokio::test(start_paused = true)]
    async fn the_documentation_has_every_lane() {
        let lanes = Lanes::new(DEFAULT);
        let (mut total, mut names) = (0, Vec::new());
        for lane in ALL {
            total += free(&lanes, lane).await;
            names.push(format!("{lane:?}").to_lowercase());
        }
        let sizing = include_str!("../../../docs/operations/sizing.md");
        for part in [
            format!("`--max-in-flight` ({DEFAULT}) limits bulk writes"),
            format!("That is {total} writes in all."),
        ] {
            assert!(sizing.contains(&part), "{part}");
        }
        let glossary = include_str!("../../../docs/architecture.md");
        let row = format!("permits of its own: {} |", names.join(", "));
        assert!(glossary.contains(&row), "{row}");
    }

    /// The help of `--max-in-flight` states this number of permits.
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
            for lane in ALL.into_iter().filter(|lane| *lane != Lane::Bulk) {
                assert_eq!(free(&lanes, lane).await, small, "{lane:?}");
            }
            drop(taken);
            assert_eq!(free(&lanes, Lane::Bulk).await, bulk);
        }
    }
}
