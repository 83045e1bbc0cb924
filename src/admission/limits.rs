//! Limits on the resources that clients of the webhook server may use.

use std::time::Duration;

/// Maximum number of reviews under way at once on one path. It bounds memory, not throughput: a
/// review from memory takes a fraction of a millisecond, and one that calls the API server as long
/// as those calls. Each path has its own limit, so an overloaded path does not delay the others.
pub(super) const CONCURRENT_REVIEWS: usize = 64;

/// Limits on the connections of the webhook server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of connections on which a request with a secret path has arrived. At the
    /// limit, a new one replaces the connection that has been idle for longest. If none is idle,
    /// the request of the new one is answered with HTTP 503.
    pub connections: usize,
    /// Maximum number of connections on which no request with a secret path has arrived yet. At
    /// the limit, a new connection is accepted and an older one is closed.
    pub unauthenticated: usize,
    /// Maximum time from the acceptance of a connection to the head of its first request with a
    /// secret path. After that, the connection is closed.
    pub unauthenticated_timeout: Duration,
    /// The same for a connection from a trusted address, from which a client has sent a secret path
    /// in the last day, and for all while no address is trusted: the API server may be slow if its
    /// node or this one has too little CPU time. A review whose connection is closed is lost.
    pub trusted_timeout: Duration,
    /// Maximum number of bytes, TLS included, that a client may send before a request with a
    /// secret path. A client that sends more is disconnected.
    pub unauthenticated_bytes: usize,
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
            unauthenticated: 128,
            unauthenticated_timeout: Duration::from_secs(1),
            trusted_timeout: Duration::from_secs(10),
            unauthenticated_bytes: 16 * 1024,
            idle: Duration::from_secs(120),
            lame_duck: Duration::from_secs(5),
            drain: Duration::from_secs(10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::authenticated_connections::AuthenticatedConnections;
    use std::sync::Arc;

    const FAILURES: &str = include_str!("../../docs/operations/failures.md");

    /// While all of them have a request under way.
    #[test]
    fn there_are_as_many_connections_as_the_page_says() {
        let limit = Limits::default().connections;
        let authenticated_connections = Arc::new(AuthenticatedConnections::new(limit));
        let taken: Vec<_> = std::iter::from_fn(|| authenticated_connections.acquire())
            .take(1000)
            .collect();
        assert_eq!(taken.len(), 512, "the next one is refused");
        let row = format!("with the secret path arrive on more than {limit} connections |");
        assert!(FAILURES.contains(&row), "{row}");
    }

    #[test]
    fn the_pages_have_the_limits_of_unauthenticated_clients_and_of_the_shutdown() {
        let limits = Limits::default();
        let (slots, seconds) = (
            limits.unauthenticated,
            limits.unauthenticated_timeout.as_secs_f64(),
        );
        let trusted = limits.trusted_timeout.as_secs_f64();
        let kib = limits.unauthenticated_bytes / 1024;
        let security = include_str!("../../docs/security.md");
        let lame_duck = limits.lame_duck.as_secs_f64();
        for (page, part) in [
            (
                FAILURES,
                format!(
                    "{slots} connections, {seconds} s ({trusted} s from the address of an API \
                     server) and {kib} KiB each,"
                ),
            ),
            (
                security,
                format!(
                    "{slots} connections of {seconds} s ({trusted} s from the address of an API \
                     server) and {kib} KiB each,"
                ),
            ),
            (FAILURES, format!("answers for another {lame_duck} s and")),
        ] {
            assert!(page.contains(&part), "{part}");
        }
    }
}
