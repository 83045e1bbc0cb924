//! The Kubernetes client, with time limits of its own and without kube's retries.

use super::bounded_pages::bounded;
use kube::{Client, Config, client::AuthError, core::Status};
use std::{error::Error, iter::successors, time::Duration};

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
/// without an answer, it may have stored the write, unless it says that the write ended at a
/// webhook. JSON of a proxy has no code, which reads as 0.
pub fn is_refused(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    (400..500).contains(&status.code) || is_denied_by_webhook(status) || lacks_webhook(status)
}

/// Returns whether an admission webhook refused the request. It chooses code and reason. Source:
/// `ToStatusErr` in `apiserver/pkg/admission/plugin/webhook/errors/statuserror.go`.
pub fn is_denied_by_webhook(status: &Status) -> bool {
    status.message.starts_with("admission webhook \"")
}

/// Returns whether a webhook whose `failurePolicy` is Fail could not be called. The API server
/// stores an object only after that. Source: `NewInternalError` in
/// `apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go`.
fn lacks_webhook(status: &Status) -> bool {
    let start = "Internal error occurred: failed calling webhook \"";
    status.message.starts_with(start)
}

/// Returns whether the API server refused a request, and would most likely refuse it again soon:
/// with a status of 4xx, except 429 (Too Many Requests).
pub fn is_lasting_refusal(error: &kube::Error) -> bool {
    let lasts = |code| (400..500).contains(&code) && code != 429;
    matches!(error, kube::Error::Api(status) if lasts(status.code))
}

/// The reason in kube's error for an answer without a `Status`.
pub const UNREADABLE_ANSWER: &str = "Failed to parse error data";

/// The message of the API server, or that of the client if there was no answer with a `Status`. It
/// contains nothing that a credential plugin got or printed.
pub fn error_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => plugin_fault(other).unwrap_or_else(|| other.to_string()),
    }
}

/// The error and its causes in one line, as `{:#}` shows them, except that [`error_message`]
/// describes an error of the client.
pub fn error_chain(error: &anyhow::Error) -> String {
    let mut messages = Vec::new();
    for cause in error.chain() {
        if let Some(error) = cause.downcast_ref::<kube::Error>() {
            messages.push(error_message(error));
            break;
        }
        messages.push(cause.to_string());
    }
    messages.join(": ")
}

/// Why the credential plugin of the kubeconfig gave no credential. kube's own messages quote the
/// arguments, the environment and the output of the plugin, all of which may contain secrets.
fn plugin_fault(error: &kube::Error) -> Option<String> {
    let first: &(dyn Error + 'static) = error;
    let mut causes = successors(Some(first), |&error| error.source());
    let fault = causes.find_map(|cause| cause.downcast_ref::<AuthError>())?;
    match fault {
        AuthError::AuthExecRun { out, .. } => Some(format!(
            "the credential plugin of the kubeconfig failed with {}",
            out.status
        )),
        AuthError::AuthExecParse(_) | AuthError::AuthExec(_) => {
            Some("the credential plugin of the kubeconfig printed no valid ExecCredential".into())
        }
        AuthError::ParseTokenKey(_) => {
            Some("the command of the kubeconfig printed no valid token".into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure("the words", "").with_code(code)))
    }

    /// A kubeconfig whose credential plugin is this command of a shell.
    fn with_plugin(script: &str) -> kube::config::Kubeconfig {
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
            "args": ["-c", script], "env": [{"name": "SECRET", "value": "t0ken"}],
            "interactiveMode": "Never",
        });
        let config = json!({
            "clusters": [{"name": "a", "cluster": {"server": "https://a"}}],
            "users": [{"name": "a", "user": {"exec": exec}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "current-context": "a",
        });
        kube::config::Kubeconfig::from_yaml(&config.to_string()).expect("a kubeconfig")
    }

    #[tokio::test]
    async fn no_message_quotes_a_credential_plugin() {
        for (script, fault) in [
            (
                "echo $SECRET; echo $SECRET >&2; exit 3",
                "failed with exit status: 3",
            ),
            ("echo $SECRET", "printed no valid ExecCredential"),
        ] {
            let options = Default::default();
            let config = Config::from_custom_kubeconfig(with_plugin(script), &options).await;
            let config = config.expect("the plugin does not run yet");
            let error = connect(config).err().expect("the plugin fails");
            let message = error_message(&error);
            assert!(message.ends_with(fault), "{message}");
            let chain = error_chain(&anyhow::Error::new(error).context("no client"));
            assert_eq!(chain, format!("no client: {message}"));
            assert!(
                !chain.contains("t0ken") && !chain.contains("SECRET"),
                "{chain}"
            );
        }
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
        for message in [
            "admission webhook \"a.example.com\" denied the request: no",
            "Internal error occurred: failed calling webhook \"a.example.com\": refused",
        ] {
            let status = Status::failure(message, "InternalError").with_code(500);
            assert!(is_refused(&kube::Error::Api(Box::new(status))), "{message}");
        }
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
