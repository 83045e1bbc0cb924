//! Checks permissions of users with the API server.

use crate::cluster::api::within;
use crate::telemetry::Metrics;
use k8s_openapi::api::authorization::v1::{SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};
use std::{sync::Arc, time::Duration};

/// Checks permissions of users by SubjectAccessReviews.
pub struct Access {
    client: Client,
    metrics: Arc<Metrics>,
}

impl Access {
    /// Creates a check that sends its reviews with `client`.
    pub fn new(client: Client, metrics: Arc<Metrics>) -> Self {
        Self { client, metrics }
    }

    /// Returns whether the API server allows the access that `review_spec` describes.
    ///
    /// # Errors
    /// When the API server does not answer within `limit`, or answers with an error. The permission
    /// is then unknown.
    pub async fn allows(
        &self,
        review_spec: SubjectAccessReviewSpec,
        limit: Duration,
    ) -> kube::Result<bool> {
        self.metrics.watches.access_reviewed();
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = SubjectAccessReview {
            spec: review_spec,
            ..SubjectAccessReview::default()
        };
        let parameters = PostParams::default();
        let answer = within(limit, reviews.create(&parameters, &review)).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}
