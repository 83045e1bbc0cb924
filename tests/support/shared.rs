//! Clusters that tests share. An unused cluster takes about a twentieth of a core, so it is stopped
//! when probably no further test uses it.

use anyhow::Result;
use parking_lot::Mutex;
use std::{
    any::Any,
    collections::BTreeSet,
    ops::Deref,
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};
use volume_warden_controlplane::{Cluster, Warden};

/// How long an unused cluster is kept. In this time it takes about as much CPU time as its start.
const KEPT: Duration = Duration::from_secs(120);

/// A reference to a shared cluster. A test holds one while it uses the cluster.
pub type Shared = Arc<Running>;

/// A running cluster, optionally with a Volume Warden, which is dropped first.
pub struct Running {
    _warden: Option<Warden>,
    cluster: Cluster,
}

impl Running {
    /// A cluster with a Volume Warden that handles all namespaces.
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

/// A value that tests share, for example a cluster. It is started on first use.
pub struct Slot<T = Running> {
    running: tokio::sync::Mutex<Weak<T>>,
    /// Whether tests of several modules, between which others are, use the value.
    has_several_modules: bool,
}

impl<T: Send + Sync + 'static> Slot<T> {
    pub const fn new() -> Self {
        Self::of(false)
    }

    /// A value that stays running between the tests of two modules.
    pub const fn for_several_modules() -> Self {
        Self::of(true)
    }

    const fn of(has_several_modules: bool) -> Self {
        Self {
            running: tokio::sync::Mutex::const_new(Weak::new()),
            has_several_modules,
        }
    }

    /// Returns the value, and starts it if it is not running.
    pub async fn get<S: Into<T>>(&self, start: impl AsyncFnOnce() -> Result<S>) -> Result<Arc<T>> {
        let mut slot = self.running.lock().await;
        let shared = match slot.upgrade() {
            Some(running) => running,
            None => Arc::new(start().await?.into()),
        };
        *slot = Arc::downgrade(&shared);
        keep(&shared, self.has_several_modules);
        Ok(shared)
    }
}

/// A value that is kept for further tests.
struct Kept {
    shared: Arc<dyn Any + Send + Sync>,
    /// When a test was last known to use the value.
    used: Instant,
    /// The modules of the tests that have used the value.
    modules: BTreeSet<String>,
    has_several_modules: bool,
}

impl Kept {
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }

    /// Whether probably no further test uses the value. Tests start in the order of their names: if
    /// only one module has used the value and a test of a later module starts, all tests of that
    /// one module have started.
    fn is_obsolete(&self, now: Instant, module: &str) -> bool {
        let is_of_one_module = self.modules.len() == 1 && !self.has_several_modules;
        let has_passed = is_of_one_module && self.modules.iter().all(|each| each.as_str() < module);
        !self.is_in_use() && (has_passed || now.duration_since(self.used) > KEPT)
    }
}

/// The module of the test that runs on this thread: libtest names its threads after the tests.
fn module() -> String {
    let thread = thread::current();
    let test = thread.name().unwrap_or_default();
    let module = test.split("::").next();
    module.unwrap_or_default().to_owned()
}

/// Keeps the value for further tests, and drops the obsolete values.
fn keep<T: Send + Sync + 'static>(shared: &Arc<T>, has_several_modules: bool) {
    static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
    let (now, module) = (Instant::now(), module());
    let shared: Arc<dyn Any + Send + Sync> = shared.clone();
    let mut all = KEPT.lock();
    let known = all
        .iter_mut()
        .find(|each| Arc::ptr_eq(&each.shared, &shared));
    match known {
        Some(kept) => {
            kept.modules.insert(module.clone());
        }
        None => all.push(Kept {
            shared,
            used: now,
            modules: BTreeSet::from([module.clone()]),
            has_several_modules,
        }),
    }
    for kept in all.iter_mut().filter(|kept| kept.is_in_use()) {
        kept.used = now;
    }
    let obsolete = all.extract_if(.., |kept| kept.is_obsolete(now, &module));
    let obsolete: Vec<_> = obsolete.collect();
    drop(all);
    if !obsolete.is_empty() {
        // Dropping a cluster waits until its processes have ended.
        tokio::task::spawn_blocking(move || drop(obsolete));
    }
}
