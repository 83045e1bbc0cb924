//! The sizes of the benchmark.

use std::time::Duration;

/// The number of concurrent requests, if requests are not sequential.
pub const SIDE_BY_SIDE: usize = 16;

/// The sizes of one run.
#[derive(Clone, Copy)]
pub struct Size {
    /// Annotated pods for each row of a table, and volumes to release.
    pub pods: usize,
    /// Claims that are deleted while the pods are created.
    pub drained: usize,
    /// Volumes, and as many pods, that need no action.
    pub unrelated: usize,
    /// Annotated pods whose calls are counted.
    pub counted: usize,
    /// Duration of the count of calls while idle.
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
    /// The small sizes if `VOLUME_WARDEN_BENCH_SMALL` is set, otherwise the full sizes.
    pub fn from_environment() -> Self {
        match std::env::var_os("VOLUME_WARDEN_BENCH_SMALL") {
            Some(_) => SMALL,
            None => FULL,
        }
    }
}
