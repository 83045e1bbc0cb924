//! The namespaces of a StorageOS cluster, over its REST API of version 2.
//!
//! ```text
//! StorageOs ── list, delete: one repetition after a 401 ──► Session: the token, one login or refresh at a time
//!     │                                                        │  credentials: files, read at each login
//!     └──────────────────────────► Wire: one request, bounded in time and size ◄──┘  token: out of the answer
//! ```
//!
//! Nothing here writes a password or a token to a log, an error or a `Debug`.

mod body;
mod credentials;
mod endpoint;
mod namespaces;
mod session;
#[cfg(test)]
mod staged;
mod token;
mod wire;

pub use endpoint::{Endpoint, EndpointError};
pub use wire::TlsFiles;

use super::{Backend, Deletion, Failure, Listed, Listing};
use futures::future::BoxFuture;
use http::{Method, StatusCode};
use reqwest::Response;
use session::Session;
use std::{fmt, path::PathBuf, time::Duration};
use tokio_util::sync::CancellationToken;
use wire::Request;

/// What may be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the API is.
    pub endpoint: Endpoint,
    /// Directory of the files `username` and `password`.
    pub secrets: PathBuf,
    /// The trusted CAs, and the client certificate for a server that requests one.
    pub tls: TlsFiles,
    /// Interval between token refreshes if the server does not report the lifetime of a token.
    pub refresh_interval: Duration,
    /// Minimum interval between logins.
    pub login_interval: Duration,
    /// For one request.
    pub request_limit: Duration,
    /// For a list or a deletion, with what it needs besides.
    pub call_limit: Duration,
}

impl Options {
    /// With what the original had everywhere else.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            secrets: "/etc/storageos/secrets/api".into(),
            tls: TlsFiles::default(),
            refresh_interval: Duration::from_secs(60),
            login_interval: Duration::from_secs(5),
            request_limit: Duration::from_secs(10),
            call_limit: Duration::from_secs(20),
        }
    }
}

/// A StorageOS cluster. Making one asks nothing of it: it may still be down, and the files still
/// missing.
pub struct StorageOs {
    session: Session,
    call_limit: Duration,
}

impl StorageOs {
    /// The cluster that the options describe.
    pub fn new(options: Options) -> Self {
        Self {
            call_limit: options.call_limit,
            session: Session::new(options),
        }
    }

    async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let limit = self.call_limit;
        tokio::time::timeout(limit, call)
            .await
            .unwrap_or_else(|_| Err(late(limit)))
    }

    /// The answer, whatever its status. One that refuses the token is asked for once more, with a
    /// new one.
    async fn answer(&self, request: &Request<'_>) -> Result<Response, Failure> {
        let token = self.session.token().await?;
        let response = self.session.wire().send(request, Some(&token)).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        drop(response);
        let token = self.session.replace(&token).await?;
        self.session.wire().send(request, Some(&token)).await
    }

    async fn read_list(&self) -> Result<Listing, Failure> {
        let request = Request::new(Method::GET, &["namespaces"]);
        let response = self.answer(&request).await?;
        if response.status() != StatusCode::OK {
            return Err(self.refusal("list namespaces", response).await);
        }
        let body = body::whole(response, body::LIST).await?;
        namespaces::read(&body)
    }

    async fn delete_listed(&self, namespace: &Listed) -> Result<Deletion, Failure> {
        if namespace.version.is_empty() {
            // An empty version means any version to some.
            return Err(Failure::server(
                "the namespace was listed without a version",
            ));
        }
        if !namespaces::is_id(&namespace.id) {
            return Ok(Deletion::NotFound);
        }
        let condition = [
            ("version", &*namespace.version),
            ("ignore-version", "false"),
        ];
        let path = ["namespaces", &namespace.id];
        let request = Request {
            query: &condition,
            ..Request::new(Method::DELETE, &path)
        };
        let response = self.answer(&request).await?;
        match response.status() {
            StatusCode::OK => Ok(Deletion::Deleted),
            StatusCode::NOT_FOUND => Ok(Deletion::NotFound),
            StatusCode::PRECONDITION_FAILED => Ok(Deletion::Stale),
            StatusCode::CONFLICT => {
                let why = self.words(response).await;
                Ok(Deletion::NotEmpty(super::Sentence::new(why)))
            }
            _ => Err(self.refusal("delete the namespace", response).await),
        }
    }

    async fn refusal(&self, what: &str, response: Response) -> Failure {
        let status = response.status();
        let why = self.words(response).await;
        match status {
            StatusCode::UNAUTHORIZED => Failure::credentials(format!(
                "StorageOS refuses to {what}, even right after a login (401): {why}"
            )),
            StatusCode::FORBIDDEN => Failure::rights(format!(
                "the user may not {what}, it has to be an administrator (403): {why}"
            )),
            _ => Failure::server(format!(
                "StorageOS did not {what} ({}): {why}",
                status.as_u16()
            )),
        }
    }

    /// What an answer says, without the token, should it repeat it.
    async fn words(&self, response: Response) -> String {
        let words = body::words(response).await;
        self.session.redact(words)
    }
}

impl Backend for StorageOs {
    fn name(&self) -> &'static str {
        "storageos"
    }

    fn list(&self) -> BoxFuture<'_, Result<Listing, Failure>> {
        Box::pin(self.within(self.read_list()))
    }

    fn delete<'a>(&'a self, namespace: &'a Listed) -> BoxFuture<'a, Result<Deletion, Failure>> {
        Box::pin(self.within(self.delete_listed(namespace)))
    }

    fn is_ready(&self) -> bool {
        self.session.has_token()
    }

    /// Logs in and keeps the token fresh, through whatever failures.
    fn tend(&self, stop: CancellationToken) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            stop.run_until_cancelled(self.session.keep_fresh()).await;
        })
    }
}

impl fmt::Debug for StorageOs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wire = self.session.wire();
        f.debug_struct("StorageOs")
            .field("endpoint", wire.endpoint())
            .finish_non_exhaustive()
    }
}

fn late(limit: Duration) -> Failure {
    Failure::timeout(format!(
        "StorageOS did not answer within {} s",
        limit.as_secs()
    ))
}
