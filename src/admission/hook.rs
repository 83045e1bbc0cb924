//! A webhook of a component: its path, the requests that it reviews, and the function that answers
//! them.

use super::{
    answer::{Reviewed, both},
    request::Request,
};
use futures::future::BoxFuture;
use std::{sync::Arc, time::Duration};

/// One webhook of a component.
#[derive(Clone)]
pub struct Hook {
    /// Path to which the API server sends the reviews of this webhook, without the secret.
    pub path: &'static str,
    /// The requests that the webhook accepts. Any other request is reported as a wrong webhook
    /// configuration.
    pub rules: &'static [Rule],
    /// The `timeoutSeconds` of this webhook in `manifests/`. A review never takes longer, even if
    /// the client announces a longer timeout.
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
    Asking(Arc<dyn Fn(Arc<Request>) -> BoxFuture<'static, Reviewed> + Send + Sync>),
}

impl Review {
    /// Creates a review that makes no calls to the API server.
    pub fn from_memory(review: impl Fn(&Request) -> Reviewed + Send + Sync + 'static) -> Self {
        Self::FromMemory(Arc::new(review))
    }

    /// Creates a review that may call the API server.
    pub fn asking<State, Answer>(
        state: &Arc<State>,
        review: impl Fn(Arc<State>, Arc<Request>) -> Answer + Send + Sync + 'static,
    ) -> Self
    where
        State: Send + Sync + 'static,
        Answer: Future<Output = Reviewed> + Send + 'static,
    {
        let state = state.clone();
        Self::Asking(Arc::new(move |request| {
            Box::pin(review(state.clone(), request))
        }))
    }

    /// Computes the answer to the request. It panics if the review panics.
    pub async fn answer(&self, request: Arc<Request>) -> Reviewed {
        match self {
            Self::FromMemory(review) => review(&request),
            Self::Asking(review) => review(request).await,
        }
    }

    /// Returns the answer of a review that makes no calls to the API server.
    #[cfg(test)]
    pub(crate) fn remembered(&self, request: &Request) -> Reviewed {
        match self {
            Self::FromMemory(review) => review(request),
            Self::Asking(_) => unreachable!("this review asks the API server"),
        }
    }

    /// Combines this review with the review `also` of the same object, so that the API server has
    /// to call one webhook only.
    pub fn and(self, also: Self) -> Self {
        Self::Asking(Arc::new(move |request| {
            let (first, also) = (self.clone(), also.clone());
            Box::pin(async move {
                let answer = first.answer(request.clone()).await;
                both(answer, also.answer(request).await)
            })
        }))
    }
}

/// An operation on a resource or subresource, as in the `rules` of a webhook configuration:
/// `Rule("CREATE", "pods/binding")`.
#[derive(Clone, Copy, Debug)]
pub struct Rule(pub &'static str, pub &'static str);

impl Rule {
    /// Returns whether the request has this operation and resource, or subresource.
    pub fn covers(&self, request: &Request) -> bool {
        let Self(operation, resource) = self;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        *operation == request.operation
            && resource == request.resource.resource
            && subresource == request.sub_resource
            && request.resource.group.is_empty()
    }
}
