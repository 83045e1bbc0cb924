//! The Kubernetes client, with time limits of its own and without kube's retries.

use kube::{Client, Config};
use std::time::Duration;

/// The name of Volume Warden in its requests to the API server; it appears in the audit log.
pub const USER_AGENT: &str = concat!("volume-warden/", env!("CARGO_PKG_VERSION"));

/// Read timeout of a connection to the API server. Only a watch may be silent for long, and a watch
/// ends before this time (see `feed`).
const SILENCE: Duration = Duration::from_secs(210);

/// Creates a Kubernetes client. kube's own retries are disabled: they repeat any method up to
/// fifteen times, far beyond the deadlines of Volume Warden.
///
/// # Errors
/// When the configuration is unusable, for example because a certificate cannot be parsed.
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

/// Usual time limit of a call for which neither an admission review nor the renewal of the Lease
/// waits.
pub const UNHURRIED: Duration = Duration::from_secs(10);

/// Awaits a call to the API server. It counts as failed after `limit`; the client alone would wait
/// much longer, because its read timeout must suit a watch.
///
/// # Errors
/// The error of the call, or a timeout error.
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

/// The message of the API server, or that of the client if there was no answer with a `Status`.
pub fn error_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
