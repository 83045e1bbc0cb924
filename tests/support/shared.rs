//! Clusters that tests share. One that no test uses is stopped: it would use about a twentieth of a
//! core.

use anyhow::Result;
use std::{
    any::Any,
    collections::VecDeque,
    ops::Deref,
    sync::{Arc, Mutex, PoisonError, Weak},
};
use volume_warden_controlplane::{Cluster, Warden};

/// How many clusters stay for the next test. Tests run in the order of their names, so the next
/// one probably uses the same.
const KEPT: usize = 4;

/// A cluster in the hands of the tests that use it.
pub type Shared = Arc<Running>;

/// A cluster, perhaps with a Volume Warden, which ends first.
pub struct Running {
    _warden: Option<Warden>,
    cluster: Cluster,
}

impl Running {
    /// With a Volume Warden that handles all of it.
    pub fn with(cluster: Cluster, warden: Warden) -> Self {
        Self {
            _warden: Some(warden),
            cluster,
        }
    }
}

impl From<Cluster> for Running {
    fn from(cluster: Cluster) -> Self {
        Self {
            _warden: None,
            cluster,
        }
    }
}

impl Deref for Running {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

/// Where tests find what they share.
pub struct Slot<T = Running>(tokio::sync::Mutex<Weak<T>>);

impl<T: Send + Sync + 'static> Slot<T> {
    pub const fn new() -> Self {
        Self(tokio::sync::Mutex::const_new(Weak::new()))
    }

    /// Starts it if it is not running.
    pub async fn get<S: Into<T>>(&self, start: impl AsyncFnOnce() -> Result<S>) -> Result<Arc<T>> {
        let mut slot = self.0.lock().await;
        let shared = match slot.upgrade() {
            Some(running) => running,
            None => Arc::new(start().await?.into()),
        };
        *slot = Arc::downgrade(&shared);
        keep(&shared);
        Ok(shared)
    }
}

/// Keeps it until [`KEPT`] others were used.
fn keep<T: Send + Sync + 'static>(shared: &Arc<T>) {
    static RECENT: Mutex<VecDeque<Arc<dyn Any + Send + Sync>>> = Mutex::new(VecDeque::new());
    let shared: Arc<dyn Any + Send + Sync> = shared.clone();
    let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    recent.retain(|each| !Arc::ptr_eq(each, &shared));
    recent.push_front(shared);
    let unused = (recent.len() > KEPT).then(|| recent.pop_back());
    drop(recent);
    // Waits for processes to end.
    tokio::task::spawn_blocking(move || drop(unused));
}
