//! Counts and measures each review, also one whose client does not wait for the answer.

use crate::telemetry::{LogLimiter, Metrics, admission::ABANDONED};
use tokio::time::Instant;

/// A review under way. When it is dropped, its duration is recorded and the review is counted: with
/// the verdict of [`Self::end`], or as abandoned if the server dropped the review before its
/// answer. The server does that when the client closes the connection: an API server whose timeout
/// is over, or whose own client has disconnected.
pub(super) struct Measured<'a> {
    metrics: &'a Metrics,
    abandoned: &'a LogLimiter,
    path: &'static str,
    started: Instant,
    verdict: Option<&'static str>,
}

impl<'a> Measured<'a> {
    /// Begins the measurement of a review on this path. `abandoned` limits the log lines about
    /// abandoned reviews.
    pub(super) fn begin(
        metrics: &'a Metrics,
        path: &'static str,
        abandoned: &'a LogLimiter,
    ) -> Self {
        Self {
            metrics,
            abandoned,
            path,
            started: Instant::now(),
            verdict: None,
        }
    }

    /// Returns when the review arrived.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Ends the measurement of a review that is answered with this verdict.
    pub(super) fn end(mut self, verdict: &'static str) {
        self.verdict = Some(verdict);
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        let (path, took) = (self.path, self.started.elapsed());
        if self.verdict.is_none()
            && let Some(suppressed) = self.abandoned.check()
        {
            let took = took.as_secs_f64();
            let why = "the client closed the connection before the review was answered";
            tracing::info!(verdict = ABANDONED, path, took, why, suppressed, "review");
        }
        let verdict = self.verdict.unwrap_or(ABANDONED);
        self.metrics.admission.reviewed(path, verdict, took);
    }
}
