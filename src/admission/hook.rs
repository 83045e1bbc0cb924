//! What a component offers to admission: a path, what may be sent there, and a function from a
//! request to an answer.

use super::{
    answer::{Reviewed, both},
    request::Request,
};
use futures::future::BoxFuture;
use std::{sync::Arc, time::Duration};

/// One webhook.
#[derive(Clone)]
pub struct Hook {
    /// Where the API server sends its reviews.
    pub path: &'static str,
    /// The requests that the webhook accepts. Any other request is reported as a wrong webhook
    /// configuration.
    pub rules: &'static [Rule],
    /// `timeoutSeconds` of its webhook in `manifests/`. No review takes longer, whatever the
    /// client announces.
    pub timeout: Duration,
    /// The review.
    pub review: Review,
}

/// How a request becomes an answer.
#[derive(Clone)]
pub enum Review {
    /// Answers from memory, without a call to the API server.
    FromMemory(Arc<dyn Fn(&Request) -> Reviewed + Send + Sync>),
    /// Answers after calls to the API server, which waits meanwhile: within the call budget of the
    /// request, and with as few calls as possible.
    Asking(Arc<dyn Fn(Arc<Request>) -> BoxFuture<'static, Reviewed> + Send + Sync>),
}

impl Review {
    /// A review from memory.
    pub fn from_memory(review: impl Fn(&Request) -> Reviewed + Send + Sync + 'static) -> Self {
        Self::FromMemory(Arc::new(review))
    }

    /// A review that may call the API server.
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

    /// The answer. It panics if the review does.
    pub async fn answer(&self, request: Arc<Request>) -> Reviewed {
        match self {
            Self::FromMemory(review) => review(&request),
            Self::Asking(review) => review(request).await,
        }
    }

    /// Returns the answer of a review that makes no calls.
    #[cfg(test)]
    pub(crate) fn remembered(&self, request: &Request) -> Reviewed {
        match self {
            Self::FromMemory(review) => review(request),
            Self::Asking(_) => unreachable!("this review asks the API server"),
        }
    }

    /// This review, and `also` what another one wants of the same object: so that the API server
    /// has to call once only.
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

/// An operation, and a resource or subresource, as in a webhook configuration's `rules`:
/// `Rule("CREATE", "pods/binding")`.
#[derive(Clone, Copy, Debug)]
pub struct Rule(pub &'static str, pub &'static str);

impl Rule {
    /// Whether the request is one of these.
    pub fn covers(&self, request: &Request) -> bool {
        let Self(operation, resource) = self;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        *operation == request.operation
            && resource == request.resource.resource
            && subresource == request.sub_resource
            && request.resource.group.is_empty()
    }
}
