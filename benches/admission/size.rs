//! The sizes of the benchmark.

use std::time::Duration;

/// The sizes of one run.
#[derive(Clone, Copy)]
pub struct Size {
    /// Duration of the load in one turn.
    pub load: Duration,
    /// Claims created in one turn: this many sequentially, and this many concurrently.
    pub claims: usize,
    /// Idle pods, each with its own claim.
    pub pods: usize,
    /// Duration of the measurement of an idle Volume Warden.
    pub window: Duration,
    /// Duration of each attack.
    pub attack: Duration,
    /// Whether the benchmark fails if an aim was missed.
    pub judged: bool,
}

const FULL: Size = Size {
    load: Duration::from_secs(10),
    claims: 500,
    pods: 20_000,
    // Includes three rounds of the two tasks that check the webhook configurations.
    window: Duration::from_secs(150),
    attack: Duration::from_secs(30),
    judged: true,
};

const SMALL: Size = Size {
    load: Duration::from_secs(1),
    claims: 20,
    pods: 200,
    window: Duration::from_secs(5),
    attack: Duration::from_secs(2),
    judged: false,
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
