//! The namespaces of a StorageOS cluster, over its REST API of version 2.
//!
//! [`StorageOs`] lists and deletes namespaces. If StorageOS answers 401, it logs in again and
//! repeats the request once. All requests share one token, and one login or refresh is under way
//! at a time. Each login reads the credentials from their files. Every request is bounded in time
//! and size.
//!
//! This module writes no password or token to a log line, an error or `Debug` output.

mod body;
mod credentials;
mod endpoint;
mod namespaces;
mod session;
#[cfg(test)]
mod staged;
mod token;
mod wire;

pub use endpoint::Endpoint;
#[cfg(feature = "simulation")]
pub use endpoint::EndpointError;
pub use wire::TlsFiles;

use super::{Backend, Deletion, Failure, Listed, Listing};
use futures::future::BoxFuture;
use http::{Method, StatusCode};
use reqwest::Response;
use session::Session;
use std::{fmt, path::PathBuf, time::Duration};
use token::Token;
use tokio_util::sync::CancellationToken;
use wire::Request;

/// Settings of the connection to a StorageOS cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address of the API.
    pub endpoint: Endpoint,
    /// Directory of the files `username` and `password`.
    pub secrets: PathBuf,
    /// The trusted CAs, and the client certificate for a server that requests one.
    pub tls: TlsFiles,
    /// Interval between token refreshes if the server does not report the lifetime of a token.
    pub refresh_interval: Duration,
    /// Minimum interval between logins.
    pub login_interval: Duration,
    /// Time limit of one HTTP request.
    pub request_limit: Duration,
    /// Time limit of one list or delete call, including a login and a repeated request.
    pub call_limit: Duration,
}

impl Options {
    /// Creates options with the defaults of StorageOS' api-manager.
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

/// A client of a StorageOS cluster. Creating it sends no request and reads no file: the cluster may
/// still be down, and the files may be missing.
pub struct StorageOs {
    session: Session,
    call_limit: Duration,
}

impl StorageOs {
    /// Creates a client of the cluster that the options describe.
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

    /// Sends the request and returns the response of any status. If StorageOS refuses the token,
    /// the request is sent once more with a new token.
    async fn answer(&self, request: &Request<'_>) -> Result<Answer, Failure> {
        let token = self.session.token().await?;
        let response = self.session.wire().send(request, Some(&token)).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(Answer { response, token });
        }
        drop(response);
        let token = self.session.replace(&token).await?;
        let response = self.session.wire().send(request, Some(&token)).await?;
        Ok(Answer { response, token })
    }

    async fn read_list(&self) -> Result<Listing, Failure> {
        let request = Request::new(Method::GET, &["namespaces"]);
        let answer = self.answer(&request).await?;
        if answer.response.status() != StatusCode::OK {
            return Err(answer.refusal("list namespaces").await);
        }
        let body = body::whole(answer.response, body::LIST).await?;
        namespaces::read(&body)
    }

    async fn delete_listed(&self, namespace: &Listed) -> Result<Deletion, Failure> {
        if namespace.version.is_empty() {
            // Some versions of StorageOS treat an empty version as "any version", so such a
            // namespace is not deleted.
            return Err(Failure::server(
                "StorageOS listed the namespace without a version, so it cannot be deleted safely",
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
        let answer = self.answer(&request).await?;
        match answer.response.status() {
            StatusCode::OK => Ok(Deletion::Deleted),
            StatusCode::NOT_FOUND => Ok(Deletion::NotFound),
            StatusCode::PRECONDITION_FAILED => Ok(Deletion::Stale),
            StatusCode::CONFLICT => {
                let why = answer.error_message().await;
                Ok(Deletion::NotEmpty(super::Sentence::new(why)))
            }
            _ => Err(answer.refusal("delete the namespace").await),
        }
    }
}

/// The response to a request, and the token that was sent with it.
struct Answer {
    response: Response,
    token: Token,
}

impl Answer {
    async fn refusal(self, what: &str) -> Failure {
        let status = self.response.status();
        let why = self.error_message().await;
        match status {
            StatusCode::UNAUTHORIZED => Failure::credentials(format!(
                "StorageOS refuses to {what}, even right after a login (401): {why}"
            )),
            StatusCode::FORBIDDEN => Failure::permissions(format!(
                "the StorageOS user may not {what}; it must be an administrator (403): {why}"
            )),
            _ => Failure::server(format!(
                "StorageOS did not {what} ({}): {why}",
                status.as_u16()
            )),
        }
    }

    /// Returns the error message in the response, without the token in case the message repeats
    /// it. The session may have another token by now.
    async fn error_message(self) -> String {
        self.token.redact(body::error_message(self.response).await)
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

    /// Logs in to StorageOS and refreshes the token until `stop`, and repeats both after failures.
    fn run_background(&self, stop: CancellationToken) -> BoxFuture<'_, ()> {
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
