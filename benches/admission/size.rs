//! How much of everything.

use std::time::Duration;

/// See the module.
#[derive(Clone, Copy)]
pub struct Size {
    /// How long a webhook server is loaded in one turn.
    pub load: Duration,
    /// Claims created in one turn, one after another and as many side by side.
    pub claims: usize,
    /// Pods that stand around, each with a claim of its own.
    pub pods: usize,
    /// How long one looks at what Volume Warden does when there is nothing to do.
    pub window: Duration,
    /// How long each attack lasts.
    pub attack: Duration,
    /// Whether the figures mean anything.
    pub judged: bool,
}

const FULL: Size = Size {
    load: Duration::from_secs(10),
    claims: 500,
    pods: 20_000,
    window: Duration::from_secs(60),
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
    /// The full one if not said otherwise.
    pub fn from_environment() -> Self {
        match std::env::var_os("VOLUME_WARDEN_BENCH_SMALL") {
            Some(_) => SMALL,
            None => FULL,
        }
    }
}
