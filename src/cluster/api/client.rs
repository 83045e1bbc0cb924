//! The Kubernetes client, with time limits of its own and without kube's retries.

use super::bounded_pages::bounded;
use kube::{Client, Config};
use std::time::Duration;

/// The name of Volume Warden in its requests to the API server; it appears in the audit log.
pub const USER_AGENT: &str = concat!("volume-warden/", env!("CARGO_PKG_VERSION"));

/// Read timeout of a connection to the API server. Only a watch may be silent for long, and a watch
/// ends before this time (see `feed`).
const READ_TIMEOUT: Duration = Duration::from_secs(210);

/// Creates a Kubernetes client, whose LISTs need a bounded amount of memory for a page. kube's own
/// retries are disabled: they repeat any method up to fifteen times, far beyond the deadlines of
/// Volume Warden.
///
/// # Errors
/// When the configuration is unusable, for example because a certificate cannot be parsed.
pub fn connect(mut config: Config) -> kube::Result<Client> {
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(READ_TIMEOUT);
    config.write_timeout = Some(Duration::from_secs(15));
    config.default_retry = false;
    config.headers.push((
        http::header::USER_AGENT,
        http::HeaderValue::from_static(USER_AGENT),
    ));
    Ok(bounded(&Client::try_from(config)?))
}

/// Usual time limit of a call for which neither an admission review nor the renewal of the Lease
/// waits.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(10);

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

/// Returns whether the API server certainly refused a write. With a status of 500 or more, or
/// without an answer, it may have stored the write. JSON of a proxy has no code, which reads as 0.
pub fn is_refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code))
}

/// Returns whether the API server refused a request, and would most likely refuse it again soon:
/// with a status of 4xx, except 429 (Too Many Requests).
pub fn is_lasting_refusal(error: &kube::Error) -> bool {
    let lasts = |code| (400..500).contains(&code) && code != 429;
    matches!(error, kube::Error::Api(status) if lasts(status.code))
}

/// The reason in kube's error for an answer without a `Status`.
pub const UNREADABLE_ANSWER: &str = "Failed to parse error data";

/// The message of the API server, or that of the client if there was no answer with a `Status`.
pub fn error_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn answer(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure("the words", "").with_code(code)))
    }

    #[test]
    fn a_write_may_be_stored_unless_the_api_server_refuses_it() {
        for refused in [403, 409, 422, 429] {
            assert!(is_refused(&answer(refused)), "{refused}");
        }
        for other in [0, 500, 504] {
            assert!(!is_refused(&answer(other)), "{other}");
        }
        assert!(!is_refused(&kube::Error::Service("no answer".into())));
    }

    #[test]
    fn a_refusal_lasts_unless_there_were_only_too_many_requests() {
        for lasting in [400, 403, 409, 422] {
            assert!(is_lasting_refusal(&answer(lasting)), "{lasting}");
        }
        for other in [0, 429, 500, 503] {
            assert!(!is_lasting_refusal(&answer(other)), "{other}");
        }
        assert!(!is_lasting_refusal(&kube::Error::Service(
            "no answer".into()
        )));
    }
}
