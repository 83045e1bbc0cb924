//! A webhook of a component: its path, the requests that it reviews, and the function that answers
//! them.

use super::{
    answer::{Answer, Reviewed, Unavailable},
    outcome::Outcome,
    request::Request,
};
use crate::{cluster::Excluded, telemetry::LogLimiter};
use futures::{
    FutureExt,
    future::{BoxFuture, ready},
};
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

/// One webhook of a component.
#[derive(Clone)]
pub struct Hook {
    /// Path to which the API server sends the reviews of this webhook, without the secret.
    pub path: &'static str,
    /// The operations and resources that the webhook reviews. Any other request is answered with
    /// HTTP 503, and the log line says that the webhook configuration is wrong.
    pub rules: &'static [Rule],
    /// The `timeoutSeconds` of this webhook in `manifests/`. It is the maximum time limit of a
    /// review, even if the client announces a longer timeout, unless `--max-webhook-timeout` is
    /// set.
    pub timeout: Duration,
    /// The function that answers the reviews.
    pub review: Review,
}

/// The function that computes the answer to a request.
#[derive(Clone)]
pub enum Review {
    /// Computes the answer from memory, without a call to the API server.
    FromMemory(Arc<dyn Fn(&Request) -> Reviewed + Send + Sync>),
    /// Computes the answer with calls to the API server, which waits for the answer meanwhile. The
    /// calls must fit into the call budget of the request and be as few as possible.
    WithCalls(Arc<dyn Fn(Arc<Request>) -> BoxFuture<'static, Reviewed> + Send + Sync>),
    /// Combines two reviews; see [`Review::and`].
    Combined(Arc<Combined>),
}

/// Two reviews of one object, in their order.
pub struct Combined {
    first: Review,
    also: Review,
    /// Limits the log lines about a failure of one of the two.
    failures: LogLimiter,
}

impl Review {
    /// Creates a review that makes no calls to the API server.
    pub fn from_memory(review: impl Fn(&Request) -> Reviewed + Send + Sync + 'static) -> Self {
        Self::FromMemory(Arc::new(review))
    }

    /// Creates a review that may call the API server.
    pub fn with_calls<State, Answering>(
        state: &Arc<State>,
        review: impl Fn(Arc<State>, Arc<Request>) -> Answering + Send + Sync + 'static,
    ) -> Self
    where
        State: Send + Sync + 'static,
        Answering: Future<Output = Reviewed> + Send + 'static,
    {
        let state = state.clone();
        Self::WithCalls(Arc::new(move |request| {
            Box::pin(review(state.clone(), request))
        }))
    }

    /// Computes the outcome of the review. If the review panics, it is [`Unavailable`], with a
    /// message that contains `place`.
    pub(super) async fn outcome(&self, request: Arc<Request>, place: &str) -> Outcome {
        let answer: BoxFuture<'_, Reviewed> = match self {
            Self::FromMemory(review) => Box::pin(async move { review(&request) }),
            Self::WithCalls(review) => Box::pin(async move { review(request).await }),
            Self::Combined(reviews) => return reviews.outcome(request).await,
        };
        let answered = AssertUnwindSafe(answer).catch_unwind().await;
        let reviewed = answered.unwrap_or_else(|_| {
            Err(Unavailable::new(format!(
                "volume-warden panicked in {place}; this is a bug"
            )))
        });
        reviewed.into()
    }

    /// Computes the answer to the request.
    #[cfg(test)]
    pub(crate) async fn answer(&self, request: Arc<Request>) -> Reviewed {
        self.outcome(request, "a test").await.reviewed
    }

    /// Returns the answer of a review that makes no calls to the API server.
    #[cfg(test)]
    pub(crate) fn remembered(&self, request: &Request) -> Reviewed {
        match self {
            Self::FromMemory(review) => review(request),
            Self::WithCalls(_) | Self::Combined(_) => {
                unreachable!("this review calls the API server, so it has no answer from memory")
            }
        }
    }

    /// Makes the review allow every request unchanged in the namespaces that `excluded` contains.
    pub fn outside(self, excluded: Excluded) -> Self {
        match self {
            Self::FromMemory(review) => Self::from_memory(move |request| {
                if excluded.contains(&request.namespace) {
                    Ok(Answer::Allow)
                } else {
                    review(request)
                }
            }),
            Self::WithCalls(review) => Self::WithCalls(Arc::new(move |request| {
                if excluded.contains(&request.namespace) {
                    Box::pin(ready(Ok(Answer::Allow)))
                } else {
                    review(request)
                }
            })),
            Self::Combined(reviews) => {
                let first = reviews.first.clone().outside(excluded.clone());
                first.and(reviews.also.clone().outside(excluded))
            }
        }
    }

    /// Combines this review with the review `also` of the same object, so that the API server has
    /// to call one webhook only. If one of them is unavailable, a patch, warning or denial of the
    /// other is still returned, and the log states the failure. If the other allows the request
    /// unchanged, the combined review is unavailable.
    pub fn and(self, also: Self) -> Self {
        Self::Combined(Arc::new(Combined {
            first: self,
            also,
            failures: LogLimiter::default(),
        }))
    }
}

impl Combined {
    /// The future is boxed, because either of the two may be such a pair itself.
    fn outcome(&self, request: Arc<Request>) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let part = "one of two combined reviews";
            let first = self.first.outcome(request.clone(), part).await;
            let also = self.also.outcome(request, part).await;
            if let (Err(why), Ok(_)) | (Ok(_), Err(why)) = (&first.reviewed, &also.reviewed)
                && let Some(suppressed) = self.failures.check()
            {
                tracing::warn!(
                    %why,
                    suppressed,
                    "one of the two reviews of a webhook call failed; only a patch, warning or \
                     denial of the other is kept"
                );
            }
            first.and(also)
        })
    }
}

/// An operation on a resource or subresource, as in the `rules` of a webhook configuration:
/// `Rule("CREATE", "pods/binding")`.
#[derive(Clone, Copy, Debug)]
pub struct Rule(pub &'static str, pub &'static str);

impl Rule {
    /// Returns whether the request has this operation, and this resource or subresource of the
    /// core API group.
    pub fn covers(&self, request: &Request) -> bool {
        let Self(operation, resource) = self;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        *operation == request.operation
            && resource == request.resource.resource
            && subresource == request.sub_resource
            && request.resource.group.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cluster::Feeds, telemetry::Metrics};
    use serde_json::json;

    #[tokio::test]
    async fn a_review_outside_of_excluded_namespaces_allows_all_there() {
        let feeds = Feeds::new(&Arc::new(Metrics::new()));
        let labels = json!({"volume-warden.dev/exclude": "true"});
        let out = json!({"metadata": {"name": "out", "uid": "1", "labels": labels}});
        let out = serde_json::from_value(out).expect("a namespace");
        feeds.namespaces.list(vec![out]);
        let refuse = |_: &Request| Ok(Answer::deny("refused".to_owned()));
        let state = Arc::new(());
        let with_calls = Review::with_calls(&state, |_, _| async {
            Ok(Answer::deny("refused".to_owned()))
        });
        for review in [Review::from_memory(refuse), with_calls] {
            let review = review.outside(Excluded::by_label(&feeds, None));
            for (namespace, refused) in [("out", false), ("in", true), ("", true)] {
                let request = json!({
                    "uid": "u", "operation": "CREATE", "namespace": namespace, "name": "a",
                    "resource": {"group": "", "version": "v1", "resource": "pods"},
                    "userInfo": {"username": "jane"}, "object": {},
                });
                let request = serde_json::from_value(request).expect("a request");
                let answer = review.answer(Arc::new(request)).await.expect("an answer");
                assert_eq!(answer != Answer::Allow, refused, "{namespace}");
            }
        }
    }
}
