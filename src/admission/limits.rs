//! Limits on the resources that clients of the webhook server may use.

use std::time::Duration;

/// Limits on the connections of the webhook server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of connections that have shown a secret path. When another one arrives, the
    /// connection that has been idle for longest is closed.
    pub connections: usize,
    /// Maximum number of connections that have not shown a secret path yet.
    pub strangers: usize,
    /// Maximum time from the accepted connection to the head of the first request with a secret
    /// path.
    pub stranger_time: Duration,
    /// Maximum number of bytes read from a connection before it has shown a secret path, TLS
    /// included.
    pub stranger_bytes: usize,
    /// Idle timeout of a connection between requests. It must be longer than the 90 s for which the
    /// API server keeps idle connections: otherwise a review can meet a connection that is being
    /// closed.
    pub idle: Duration,
    /// Time after `stop` in which the server still accepts reviews, and asks in every answer to
    /// close the connection.
    pub lame_duck: Duration,
    /// Time after the lame-duck phase in which reviews under way may finish.
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
