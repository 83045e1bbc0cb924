//! The StorageOS token that all requests share, and its renewal.

use super::{
    Options, body,
    credentials::Credentials,
    token::Token,
    wire::{ApiClient, Body, Request},
};
use crate::backend::Failure;
use http::{Method, StatusCode};
use std::{path::PathBuf, time::Duration};
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, sleep, sleep_until},
};

/// Renews the token in one task at a time: the task that holds the lock on the last login sends the
/// login or refresh, and the other tasks wait and share the new token.
pub(super) struct Session {
    wire: ApiClient,
    secrets: PathBuf,
    refresh_interval: Duration,
    login_interval: Duration,
    token: watch::Sender<Option<Token>>,
    last_login: Mutex<Option<Login>>,
}

/// The last attempt to log in to StorageOS.
struct Login {
    at: Instant,
    /// The error for callers that need another login before `login_interval` has passed.
    then: Failure,
}

impl Session {
    pub(super) fn new(options: Options) -> Self {
        Self {
            wire: ApiClient::new(&options),
            secrets: options.secrets,
            refresh_interval: options.refresh_interval,
            login_interval: options.login_interval,
            token: watch::Sender::new(None),
            last_login: Mutex::new(None),
        }
    }

    pub(super) fn wire(&self) -> &ApiClient {
        &self.wire
    }

    pub(super) fn has_token(&self) -> bool {
        self.token.borrow().is_some()
    }

    /// Returns the current token; logs in if there is none.
    pub(super) async fn token(&self) -> Result<Token, Failure> {
        match self.current() {
            Some(token) => Ok(token),
            None => self.renewed(None).await,
        }
    }

    /// Returns a token other than `refused`, which StorageOS did not accept. Logs in unless another
    /// task has renewed the token meanwhile.
    pub(super) async fn replace(&self, refused: &Token) -> Result<Token, Failure> {
        self.renewed(Some(refused)).await
    }

    /// Keeps the token valid: refreshes it when half of its lifetime is over, and logs in if there
    /// is none or the refresh fails. Never returns.
    pub(super) async fn keep_fresh(&self) {
        let mut changes = self.token.subscribe();
        let mut failing = false;
        loop {
            let due = changes.borrow_and_update().as_ref().map(|token| token.due);
            if let Some(due) = due {
                tokio::select! {
                    biased;
                    () = sleep_until(due) => {}
                    _ = changes.changed() => continue,
                }
            }
            match self.freshen().await {
                Ok(()) if failing => {
                    failing = false;
                    tracing::info!(
                        "the token of StorageOS is renewed again, after earlier \
                        attempts failed"
                    );
                }
                Ok(()) => {}
                Err(failure) => {
                    if !failing {
                        tracing::warn!(%failure, "cannot renew the token of StorageOS; retrying");
                    }
                    failing = true;
                    tokio::select! { biased; () = sleep(self.login_interval) => {}, _ = changes.changed() => {} }
                }
            }
        }
    }

    fn current(&self) -> Option<Token> {
        self.token.borrow().clone()
    }

    async fn renewed(&self, refused: Option<&Token>) -> Result<Token, Failure> {
        let mut last = self.last_login.lock().await;
        match self.current() {
            Some(token) if refused.is_none_or(|refused| refused.header != token.header) => {
                Ok(token)
            }
            _ => self.log_in(&mut last).await,
        }
    }

    /// Refreshes the token if it is due. Logs in if there is no token or the refresh fails.
    async fn freshen(&self) -> Result<(), Failure> {
        let mut last = self.last_login.lock().await;
        let token = match self.current() {
            Some(token) if Instant::now() < token.due => return Ok(()),
            token => token,
        };
        if let Some(token) = token {
            match self.refresh(&token).await {
                Ok(()) => return Ok(()),
                Err(failure) => {
                    tracing::debug!(%failure, "token of StorageOS not refreshed; logging in")
                }
            }
        }
        self.log_in(&mut last).await.map(drop)
    }

    async fn refresh(&self, token: &Token) -> Result<(), Failure> {
        self.wire.reload().await?;
        let request = Request::new(Method::POST, &["auth", "refresh"]);
        let granted = self.request_token(&request, Some(token), "refresh").await?;
        self.token.send_replace(Some(granted));
        Ok(())
    }

    /// Logs in to StorageOS with the current content of the credential files, at most once per
    /// `login_interval`: before this interval has passed, a call sends nothing and returns the
    /// failure in [`Login::then`].
    async fn log_in(&self, last: &mut Option<Login>) -> Result<Token, Failure> {
        if let Some(login) = last.as_ref()
            && login.at.elapsed() < self.login_interval
        {
            return Err(login.then.clone());
        }
        let credentials = Credentials::read(&self.secrets).await?;
        self.wire.reload().await?;
        // The attempt is recorded before the request is sent, because the caller may stop waiting.
        let then = Failure::timeout(
            "StorageOS did not answer the last login, and the minimum interval between logins has \
             not passed",
        );
        *last = Some(Login {
            at: Instant::now(),
            then,
        });
        let granted = self.send_login(&credentials).await;
        let then = match &granted {
            Ok(_) => Failure::credentials("StorageOS rejected a token that it has just issued"),
            Err(failure) => failure.clone(),
        };
        *last = Some(Login {
            at: Instant::now(),
            then,
        });
        let token = granted?;
        self.token.send_replace(Some(token.clone()));
        tracing::info!(endpoint = %self.wire.endpoint(), "logged in to StorageOS");
        Ok(token)
    }

    async fn send_login(&self, credentials: &Credentials) -> Result<Token, Failure> {
        let json = serde_json::to_vec(credentials)
            .map_err(|_| Failure::credentials("user and password cannot be sent as JSON"))?;
        let request = Request {
            body: Some(Body(json)),
            ..Request::new(Method::POST, &["auth", "login"])
        };
        self.request_token(&request, None, "login").await
    }

    /// Requests a token. An error does not repeat the text of the response, because it may contain
    /// the password.
    async fn request_token(
        &self,
        request: &Request<'_>,
        token: Option<&Token>,
        what: &str,
    ) -> Result<Token, Failure> {
        let requested_at = Instant::now();
        let response = self.wire.send(request, token).await?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(refused(what, status));
        }
        let headers = response.headers().clone();
        let body = body::whole(response, body::SMALL).await?;
        Token::granted(&headers, &body, requested_at, self.refresh_interval).ok_or_else(|| {
            Failure::server(format!("StorageOS answered the {what} without a token"))
        })
    }
}

fn refused(what: &str, status: StatusCode) -> Failure {
    let why = format!("StorageOS refused the {what} ({})", status.as_u16());
    match status {
        StatusCode::UNAUTHORIZED => Failure::credentials(why),
        StatusCode::FORBIDDEN => Failure::permissions(why),
        _ => Failure::server(why),
    }
}
