//! Clusters that one test at a time uses exclusively.

use super::shared::{Shared, Slot};
use anyhow::Result;
use futures::future::select_all;
use tokio::sync::{Mutex, MutexGuard};
use volume_warden_controlplane::Cluster;

/// A cluster for one test at a time.
pub struct Place {
    turn: Mutex<()>,
    cluster: Slot,
}

/// Exclusive use of a place until it is dropped.
pub type Turn = MutexGuard<'static, ()>;

impl Place {
    pub const fn new() -> Self {
        Self {
            turn: Mutex::const_new(()),
            cluster: Slot::new(),
        }
    }
}

/// Waits for the first free place. Its cluster is started on first use, with this name and the
/// place's number. With more than one place, tests need not wait for the slowest one while the
/// machine is idle.
pub async fn acquire_free(
    places: &'static [Place],
    name: &str,
    start: impl AsyncFnOnce(&str) -> Result<Cluster>,
) -> Result<(Shared, Turn)> {
    let turns = places.iter().map(|place| Box::pin(place.turn.lock()));
    let (turn, number, _) = select_all(turns).await;
    let cluster = &places[number].cluster;
    let name = format!("{name}-{number}");
    let cluster = cluster.get(async || start(&name).await).await?;
    Ok((cluster, turn))
}
