//! The wall clock for the validity of certificates. It is a parameter, so that tests can set it.

use rustls::{pki_types::UnixTime, time_provider::TimeProvider};
use std::{fmt, sync::Arc, time::Duration};
use time::OffsetDateTime;

/// A wall clock that tests can replace.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> OffsetDateTime + Send + Sync>);

impl Clock {
    /// The machine's.
    pub fn system() -> Self {
        Self::new(OffsetDateTime::now_utc)
    }

    /// One that says what `now` says.
    pub fn new(now: impl Fn() -> OffsetDateTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// What it says.
    pub fn now(&self) -> OffsetDateTime {
        (self.0)()
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
pub(super) fn unix_time(now: OffsetDateTime) -> UnixTime {
    let seconds = now.unix_timestamp().try_into().unwrap_or_default();
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}
