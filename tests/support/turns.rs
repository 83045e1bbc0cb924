//! Clusters that a test needs to itself for a while.

use anyhow::Result;
use futures::future::select_all;
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use volume_warden_controlplane::Cluster;

/// A cluster for one test after the other.
pub struct Place {
    turn: Mutex<()>,
    cluster: OnceCell<Cluster>,
}

/// One of them is free for as long as this is kept.
pub type Turn = MutexGuard<'static, ()>;

impl Place {
    pub const fn new() -> Self {
        Self {
            turn: Mutex::const_new(()),
            cluster: OnceCell::const_new(),
        }
    }
}

/// Waits for the first place that is free; its cluster is started with this name and the place's number if it never was. With more than
/// one place, others need not wait for the slowest test while the machine has nothing else to do.
pub async fn first_free(
    places: &'static [Place],
    name: &str,
    start: impl AsyncFnOnce(&str) -> Result<Cluster>,
) -> Result<(&'static Cluster, Turn)> {
    let turns = places.iter().map(|place| Box::pin(place.turn.lock()));
    let (turn, number, _) = select_all(turns).await;
    let cluster = &places[number].cluster;
    let name = format!("{name}-{number}");
    let cluster = cluster.get_or_try_init(|| start(&name)).await?;
    Ok((cluster, turn))
}
