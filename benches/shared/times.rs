//! Times and their format.

use std::time::Duration;

/// Times, sorted ascending.
#[derive(Default)]
pub struct Times(Vec<Duration>);

impl FromIterator<Duration> for Times {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort_unstable();
        Self(times)
    }
}

impl Times {
    /// The union of both lists of times.
    pub fn and(self, others: Self) -> Self {
        self.0.into_iter().chain(others.0).collect()
    }

    /// The percentile; zero if there are no times.
    pub fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100);
        let found = self.0.get(rank.saturating_sub(1));
        found.copied().unwrap_or_default()
    }

    /// p50 and p99, as two cells of a table.
    pub fn cells(&self) -> String {
        let [p50, p99] = [50, 99].map(|percent| milliseconds(self.percentile(percent)));
        format!("{p50} | {p99}")
    }

    /// p50 and p99 minus those of `floor`, as two cells of a table.
    pub fn cells_above(&self, floor: &Self) -> String {
        let [p50, p99] = [50, 99].map(|percent| {
            let (time, floor) = (self.percentile(percent), floor.percentile(percent));
            1000.0 * (time.as_secs_f64() - floor.as_secs_f64())
        });
        format!("{p50:+.1} ms | {p99:+.1} ms")
    }
}

/// Formats a time like `12.3 ms`.
pub fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", 1000.0 * time.as_secs_f64())
}
