//! The wall clock. It is passed in, so that a test can move it. Durations are measured by tokio's clock, which a test can pause.

use k8s_openapi::jiff::Timestamp;
use rustls::{pki_types::UnixTime, time_provider::TimeProvider};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};
use time::OffsetDateTime;

/// A source of the current time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> OffsetDateTime + Send + Sync>);

impl Clock {
    /// The clock of the machine.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
    pub fn system() -> Self {
        Self::new(OffsetDateTime::now_utc)
    }

    /// A clock that returns what `now` returns.
    pub fn new(now: impl Fn() -> OffsetDateTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The current time.
    pub fn now(&self) -> OffsetDateTime {
        (self.0)()
    }

    /// The current time, in the type of the Kubernetes API.
    pub fn timestamp(&self) -> Timestamp {
        // Both types cover the years that a machine can be set to.
        Timestamp::from_nanosecond(self.now().unix_timestamp_nanos()).unwrap_or_default()
    }

    /// The current time, as storage backends report times.
    pub fn system_time(&self) -> SystemTime {
        self.now().into()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}

/// For the certificates of clients.
impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(unix_time(self.now()))
    }
}

/// As the verifiers take it.
pub(crate) fn unix_time(now: OffsetDateTime) -> UnixTime {
    let seconds = now.unix_timestamp().try_into().unwrap_or_default();
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}
