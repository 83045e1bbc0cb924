//! The Kubernetes client: timeouts of its own, and no retries except those of Volume Warden.

use kube::{Client, Config};
use std::time::Duration;

/// How Volume Warden names itself to the API server, in its audit log for instance.
pub const USER_AGENT: &str = concat!("volume-warden/", env!("CARGO_PKG_VERSION"));

/// Read timeout. Only a watch may be silent for long, and a watch ends before this time (see
/// `feed`).
const SILENCE: Duration = Duration::from_secs(210);

/// Creates a client. kube's own retries are disabled: they repeat any method up to fifteen times,
/// far beyond the deadlines of Volume Warden.
///
/// # Errors
/// When the configuration cannot be used, a certificate that does not parse for instance.
pub fn connect(mut config: Config) -> kube::Result<Client> {
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(SILENCE);
    config.write_timeout = Some(Duration::from_secs(15));
    config.default_retry = false;
    config.headers.push((
        http::header::USER_AGENT,
        http::HeaderValue::from_static(USER_AGENT),
    ));
    Client::try_from(config)
}

/// Timeout of a background call, for which neither a review nor a Lease waits.
pub const UNHURRIED: Duration = Duration::from_secs(10);

/// A call that takes longer than this counts as failed: kube's client alone would wait for ever.
///
/// # Errors
/// The call's own error, or one that says it took too long.
pub async fn within<T>(
    limit: Duration,
    call: impl Future<Output = kube::Result<T>>,
) -> kube::Result<T> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer,
        Err(_) => Err(kube::Error::Service(
            format!("no answer from the API server within {limit:?}").into(),
        )),
    }
}
