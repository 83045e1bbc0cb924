//! Asks the API server what a user may do.

use crate::cluster::api::within;
use crate::telemetry::Metrics;
use k8s_openapi::api::authorization::v1::{SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};
use std::{sync::Arc, time::Duration};

/// Sends SubjectAccessReviews.
pub struct Access {
    client: Client,
    metrics: Arc<Metrics>,
}

impl Access {
    /// Asks with this client.
    pub fn new(client: Client, metrics: Arc<Metrics>) -> Self {
        Self { client, metrics }
    }

    /// Whether it is allowed.
    ///
    /// # Errors
    /// When there is no answer within `limit`. Nothing may be concluded then.
    pub async fn allows(
        &self,
        question: SubjectAccessReviewSpec,
        limit: Duration,
    ) -> kube::Result<bool> {
        self.metrics.feeds.access_reviewed();
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = SubjectAccessReview {
            spec: question,
            ..SubjectAccessReview::default()
        };
        let parameters = PostParams::default();
        let answer = within(limit, reviews.create(&parameters, &review)).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}
