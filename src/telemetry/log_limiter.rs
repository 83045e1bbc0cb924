//! Limits log lines that clients can cause in thousands: to one a minute for each cause, or to ten
//! a minute for each namespace.

use crate::hashing::HashMap;
use parking_lot::Mutex;
use std::time::Duration;
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
    /// If the caller must write a line now, returns the number of lines that were suppressed since
    /// the last one; none if this line is suppressed.
    pub fn check(&self) -> Option<u64> {
        let mut last = self.0.lock();
        if last.written.is_some_and(|at| at.elapsed() < MINUTE) {
            last.suppressed += 1;
            return None;
        }
        last.written = Some(Instant::now());
        Some(std::mem::take(&mut last.suppressed))
    }
}

/// Maximum number of log lines of one cause about one namespace per minute.
const OF_A_NAMESPACE: u32 = 10;
/// Maximum number of namespaces that are limited separately. Further ones share one limit.
const NAMESPACES: usize = 1024;

/// Limits the log lines of one cause to ten a minute for each namespace, so that the users of one
/// namespace cannot fill the log.
#[derive(Debug, Default)]
pub struct NamespaceLogLimiter(Mutex<HashMap<Box<str>, Window>>);

#[derive(Debug)]
struct Window {
    began: Instant,
    lines: u32,
    suppressed: u64,
}

impl NamespaceLogLimiter {
    /// If the caller must write a line now, returns the number of lines under the same limit that
    /// were suppressed since the last one; none if this line is suppressed.
    pub fn check(&self, namespace: &str) -> Option<u64> {
        let mut windows = self.0.lock();
        let mut key = namespace;
        if windows.len() >= NAMESPACES && !windows.contains_key(namespace) {
            windows.retain(|_, window| window.began.elapsed() < MINUTE);
            if windows.len() >= NAMESPACES {
                key = "";
            }
        }
        let window = windows.entry(key.into()).or_insert_with(|| Window {
            began: Instant::now(),
            lines: 0,
            suppressed: 0,
        });
        if window.began.elapsed() >= MINUTE {
            (window.began, window.lines) = (Instant::now(), 0);
        }
        if window.lines == OF_A_NAMESPACE {
            window.suppressed += 1;
            return None;
        }
        window.lines += 1;
        Some(std::mem::take(&mut window.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_namespace_has_its_own_lines() {
        let limiter = NamespaceLogLimiter::default();
        let lines = |namespace: &str| {
            let checks = (0..100).filter(|_| limiter.check(namespace).is_some());
            checks.count()
        };
        assert_eq!([lines("a"), lines("b"), lines("a")], [10, 10, 0]);
        tokio::time::advance(MINUTE).await;
        assert_eq!(
            [limiter.check("a"), limiter.check("a")],
            [Some(190), Some(0)]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_namespaces_is_bounded() {
        let limiter = NamespaceLogLimiter::default();
        let lines = || {
            let namespaces = (0..3 * NAMESPACES).map(|n| format!("n{n}"));
            let checks = namespaces.filter(|name| limiter.check(name).is_some());
            checks.count()
        };
        assert_eq!(lines(), NAMESPACES + OF_A_NAMESPACE as usize);
        assert_eq!(limiter.0.lock().len(), NAMESPACES + 1);
        tokio::time::advance(MINUTE).await;
        assert_eq!(limiter.check("new"), Some(0));
        assert_eq!(limiter.0.lock().len(), 1);
    }

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
