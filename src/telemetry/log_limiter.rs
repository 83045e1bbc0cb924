//! Limits log lines that clients can cause in thousands to one line a minute for each cause.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

/// Limits the log lines of one cause.
#[derive(Debug, Default)]
pub struct LogLimiter(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    written: Option<Instant>,
    suppressed: u64,
}

impl LogLimiter {
    /// Returns the number of lines that were suppressed since the last one, if the caller must
    /// write a line now.
    pub fn check(&self) -> Option<u64> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.written.is_some_and(|at| at.elapsed() < MINUTE) {
            last.suppressed += 1;
            return None;
        }
        last.written = Some(Instant::now());
        Some(std::mem::take(&mut last.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_a_minute_says_how_many_were_left_out() {
        let limiter = LogLimiter::default();
        assert_eq!(
            [limiter.check(), limiter.check(), limiter.check()],
            [Some(0), None, None]
        );
        tokio::time::advance(MINUTE).await;
        assert_eq!([limiter.check(), limiter.check()], [Some(2), None]);
        tokio::time::advance(MINUTE * 2).await;
        assert_eq!(limiter.check(), Some(1));
    }
}
