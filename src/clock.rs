//! The wall clock. It is passed as a value, so that a test can move it. Durations are measured with
//! tokio's clock, which a test can pause.

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
    /// Returns the clock of the machine.
    #[expect(
        clippy::disallowed_methods,
        reason = "the only place that reads the wall clock"
    )]
    pub fn system() -> Self {
        Self::new(OffsetDateTime::now_utc)
    }

    /// Creates a clock that returns what `now` returns.
    pub fn new(now: impl Fn() -> OffsetDateTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the current time.
    pub fn now(&self) -> OffsetDateTime {
        (self.0)()
    }

    /// Returns the current time in the type of the Kubernetes API.
    pub fn timestamp(&self) -> Timestamp {
        // This cannot fail: both types cover all years to which a machine's clock can be set.
        Timestamp::from_nanosecond(self.now().unix_timestamp_nanos()).unwrap_or_default()
    }

    /// Returns the current time in the type in which storage backends report times.
    pub fn system_time(&self) -> SystemTime {
        self.now().into()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}

/// Provides the time at which rustls verifies client certificates.
impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(unix_time(self.now()))
    }
}

/// Converts a time to the type that certificate verifiers require.
pub(crate) fn unix_time(now: OffsetDateTime) -> UnixTime {
    let seconds = now.unix_timestamp().try_into().unwrap_or_default();
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}
