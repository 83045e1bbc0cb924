//! Authorizes clients by bearer token: the API server checks whether a token may read a path.

use crate::cluster::api::within;
use crate::hashing::HashMap;
use crate::telemetry::{LogLimiter, health::Judgement};
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
const QUESTIONS: usize = 2;
const PAUSE: Duration = Duration::from_millis(200);
/// Time limit of the TokenReview and the SubjectAccessReview together.
const LIMIT: Duration = Duration::from_secs(5);
/// Time for which an allowed token is cached, and a revoked one may still be used.
const ALLOWED_FOR: Duration = Duration::from_secs(60);
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// Maximum number of tokens whose results are cached.
const REMEMBERED: usize = 64;

/// Checks whether bearer tokens may GET one path. Clones share the cached results.
#[derive(Clone)]
pub struct Tokens(Arc<Shared>);

struct Shared {
    client: Client,
    path: &'static str,
    questions: Arc<Semaphore>,
    remembered: Mutex<HashMap<String, (Judgement, Instant)>>,
    failures: LogLimiter,
}

impl Tokens {
    /// Creates a check for `path`, as the `nonResourceURLs` of a ClusterRole name it.
    pub fn new(client: Client, path: &'static str) -> Self {
        Self(Arc::new(Shared {
            client,
            path,
            questions: Arc::new(Semaphore::new(QUESTIONS)),
            remembered: Mutex::default(),
            failures: LogLimiter::default(),
        }))
    }

    /// Returns whether the bearer of the token may read the path. The result can be a minute old.
    pub async fn judge(&self, token: String) -> Judgement {
        if let Some(judgement) = self.0.recall(&token) {
            return judgement;
        }
        // The semaphore is never closed, so acquiring a permit cannot fail.
        let Ok(permit) = self.0.questions.clone().acquire_owned().await else {
            return Judgement::Unavailable;
        };
        if let Some(judgement) = self.0.recall(&token) {
            return judgement;
        }
        let shared = self.0.clone();
        // The check runs in its own task, so that a client cannot shorten the pause by
        // disconnecting.
        let (sender, judgement) = tokio::sync::oneshot::channel();
        #[expect(
            clippy::disallowed_methods,
            reason = "a client cannot shorten the pause by disconnecting"
        )]
        tokio::spawn(async move {
            let judgement = shared.judge(&token).await;
            shared.remember(token, judgement);
            let _ = sender.send(judgement);
            if judgement != Judgement::Allowed {
                sleep(PAUSE).await;
            }
            drop(permit);
        });
        judgement.await.unwrap_or(Judgement::Unavailable)
    }
}

impl Shared {
    async fn judge(&self, token: &str) -> Judgement {
        match within(LIMIT, self.review(token)).await {
            Ok(judgement) => judgement,
            Err(error) => {
                if let Some(suppressed) = self.failures.check() {
                    tracing::warn!(%error, suppressed, "cannot check who may read the metrics");
                }
                Judgement::Unavailable
            }
        }
    }

    async fn review(&self, token: &str) -> kube::Result<Judgement> {
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
            return Ok(Judgement::Unauthenticated);
        };
        let access: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = access.create(&parameters, &self.question(user)).await?;
        let allowed = answer.status.is_some_and(|status| status.allowed);
        Ok(if allowed {
            Judgement::Allowed
        } else {
            Judgement::Forbidden
        })
    }

    fn question(&self, user: UserInfo) -> SubjectAccessReview {
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

    fn recall(&self, token: &str) -> Option<Judgement> {
        let remembered = self.remembered.lock();
        let (judgement, until) = remembered.get(token)?;
        (Instant::now() < *until).then_some(*judgement)
    }

    /// Caches a result, unless the check failed, and drops expired results. If the cache is still
    /// full, it drops the results of tokens that are not allowed; if that is not enough, all.
    fn remember(&self, token: String, judgement: Judgement) {
        let now = Instant::now();
        let lasts = match judgement {
            Judgement::Allowed => ALLOWED_FOR,
            Judgement::Forbidden | Judgement::Unauthenticated => REFUSED_FOR,
            Judgement::Unavailable => return,
        };
        let mut remembered = self.remembered.lock();
        remembered.retain(|_, (_, until)| now < *until);
        if remembered.len() >= REMEMBERED {
            remembered.retain(|_, (judgement, _)| *judgement == Judgement::Allowed);
        }
        if remembered.len() >= REMEMBERED {
            remembered.clear();
        }
        remembered.insert(token, (judgement, now + lasts));
    }
}

#[cfg(test)]
mod tests;
