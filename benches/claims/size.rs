//! How much of everything.

use std::time::Duration;

/// So many at once, where it is not one after another.
pub const SIDE_BY_SIDE: usize = 16;

/// See the module.
#[derive(Clone, Copy)]
pub struct Size {
    /// Annotated pods of a table's row, and volumes to release.
    pub pods: usize,
    /// Claims that go while the pods come.
    pub drained: usize,
    /// Volumes, and as many pods, that are nobody's business.
    pub unrelated: usize,
    /// Annotated pods whose calls are counted.
    pub counted: usize,
    /// How long calls are counted where nothing is to be done.
    pub window: Duration,
}

const FULL: Size = Size {
    pods: 300,
    drained: 3000,
    unrelated: 5000,
    counted: 50,
    window: Duration::from_secs(30),
};

const SMALL: Size = Size {
    pods: 30,
    drained: 200,
    unrelated: 600,
    counted: 5,
    window: Duration::from_secs(5),
};

impl Size {
    /// The full one if not said otherwise.
    pub fn from_environment() -> Self {
        match std::env::var_os("VOLUME_WARDEN_BENCH_SMALL") {
            Some(_) => SMALL,
            None => FULL,
        }
    }
}
