//! Authorizes clients by bearer token: the API server checks whether a token may read a path.

use crate::cluster::api::within;
use crate::hashing::HashMap;
use crate::telemetry::{LogLimiter, health::TokenDecision};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};

/// Maximum number of concurrent checks. After a token that is not allowed, its slot also pauses for
/// a while: unauthenticated clients must not make Volume Warden flood the API server with calls.
const MAX_CONCURRENT_CHECKS: usize = 2;
const PAUSE: Duration = Duration::from_millis(200);
/// Time limit of the TokenReview and the SubjectAccessReview together.
const LIMIT: Duration = Duration::from_secs(5);
/// Time for which an allowed token is cached, and a revoked one may still be used.
const ALLOWED_FOR: Duration = Duration::from_secs(60);
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// Maximum number of tokens whose results are cached.
const MAX_CACHED_TOKENS: usize = 64;

/// Checks whether bearer tokens may GET one path. Clones share the cached results.
#[derive(Clone)]
pub struct Tokens(Arc<Shared>);

struct Shared {
    client: Client,
    path: &'static str,
    checks: Arc<Semaphore>,
    cache: Mutex<HashMap<String, (TokenDecision, Instant)>>,
    failures: LogLimiter,
}

impl Tokens {
    /// Creates a check for `path`, as the `nonResourceURLs` of a ClusterRole name it.
    pub fn new(client: Client, path: &'static str) -> Self {
        Self(Arc::new(Shared {
            client,
            path,
            checks: Arc::new(Semaphore::new(MAX_CONCURRENT_CHECKS)),
            cache: Mutex::default(),
            failures: LogLimiter::default(),
        }))
    }

    /// Returns whether the bearer of the token may read the path. The result can be a minute old.
    pub async fn authorize(&self, token: String) -> TokenDecision {
        if let Some(decision) = self.0.cached(&token) {
            return decision;
        }
        // The semaphore is never closed, so acquiring a permit cannot fail.
        let Ok(permit) = self.0.checks.clone().acquire_owned().await else {
            return TokenDecision::Unavailable;
        };
        if let Some(decision) = self.0.cached(&token) {
            return decision;
        }
        let shared = self.0.clone();
        // The check runs in its own task, so that a client cannot shorten the pause by
        // disconnecting.
        let (sender, decision) = tokio::sync::oneshot::channel();
        #[expect(
            clippy::disallowed_methods,
            reason = "a client cannot shorten the pause by disconnecting"
        )]
        tokio::spawn(async move {
            let decision = shared.check(&token).await;
            shared.cache(token, decision);
            let _ = sender.send(decision);
            if decision != TokenDecision::Allowed {
                sleep(PAUSE).await;
            }
            drop(permit);
        });
        decision.await.unwrap_or(TokenDecision::Unavailable)
    }
}

impl Shared {
    async fn check(&self, token: &str) -> TokenDecision {
        match within(LIMIT, self.review(token)).await {
            Ok(decision) => decision,
            Err(error) => {
                if let Some(suppressed) = self.failures.check() {
                    tracing::warn!(%error, suppressed, "cannot check who may read the metrics");
                }
                TokenDecision::Unavailable
            }
        }
    }

    async fn review(&self, token: &str) -> kube::Result<TokenDecision> {
        let parameters = PostParams::default();
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let tokens: Api<TokenReview> = Api::all(self.client.clone());
        let review = tokens.create(&parameters, &review).await?;
        let status = review.status.unwrap_or_default();
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
            return Ok(TokenDecision::Unauthenticated);
        };
        let access: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = access
            .create(&parameters, &self.access_review(user))
            .await?;
        let allowed = answer.status.is_some_and(|status| status.allowed);
        Ok(if allowed {
            TokenDecision::Allowed
        } else {
            TokenDecision::Forbidden
        })
    }

    fn access_review(&self, user: UserInfo) -> SubjectAccessReview {
        SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                uid: user.uid,
                groups: user.groups,
                extra: user.extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(self.path.to_owned()),
                    verb: Some("get".to_owned()),
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        }
    }

    fn cached(&self, token: &str) -> Option<TokenDecision> {
        let cache = self.cache.lock();
        let (decision, until) = cache.get(token)?;
        (Instant::now() < *until).then_some(*decision)
    }

    /// Caches a result, unless the check failed, and drops expired results. If the cache is still
    /// full, it drops the results of tokens that are not allowed; if that is not enough, all.
    fn cache(&self, token: String, decision: TokenDecision) {
        let now = Instant::now();
        let lasts = match decision {
            TokenDecision::Allowed => ALLOWED_FOR,
            TokenDecision::Forbidden | TokenDecision::Unauthenticated => REFUSED_FOR,
            TokenDecision::Unavailable => return,
        };
        let mut cache = self.cache.lock();
        cache.retain(|_, (_, until)| now < *until);
        if cache.len() >= MAX_CACHED_TOKENS {
            cache.retain(|_, (decision, _)| *decision == TokenDecision::Allowed);
        }
        if cache.len() >= MAX_CACHED_TOKENS {
            cache.clear();
        }
        cache.insert(token, (decision, now + lasts));
    }
}

#[cfg(test)]
mod tests;
