//! How many resources clients may use.

use std::time::Duration;

/// Limits for the connections of the webhook server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once that have shown a secret path. When there are more, the one that has
    /// been idle for longest is closed.
    pub connections: usize,
    /// Connections at once that have not.
    pub strangers: usize,
    /// From the connection to the head of the first request with a secret path.
    pub stranger_time: Duration,
    /// Bytes that are read of a connection until then, those of TLS included.
    pub stranger_bytes: usize,
    /// Between requests. More than the API server's 90 s, or it meets the close with a review.
    pub idle: Duration,
    /// After `stop`: still serving, every answer asks to close.
    pub lame_duck: Duration,
    /// After the lame duck: for reviews under way.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            strangers: 128,
            stranger_time: Duration::from_secs(1),
            stranger_bytes: 16 * 1024,
            idle: Duration::from_secs(120),
            lame_duck: Duration::from_secs(5),
            drain: Duration::from_secs(10),
        }
    }
}
