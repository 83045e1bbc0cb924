//! Checks whether the user who creates a pod may create claims. Without this check, everyone who
//! may create pods gets claims through the permissions of Volume Warden.

use super::Notice;
use crate::{
    admission::{Request, UserInfo},
    cluster::Access,
};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};

/// Checks the permissions of users who create pods.
pub struct Requesters {
    access: Access,
}

impl Requesters {
    /// Creates the check, which sends SubjectAccessReviews.
    pub fn new(access: Access) -> Self {
        Self { access }
    }

    /// Checks that the user who sent the request may create claims in the pod's namespace.
    ///
    /// # Errors
    /// A notice for the user who may not create claims, or about whom this could not be checked
    /// within the request's call budget.
    pub async fn check(&self, request: &Request) -> Result<(), Notice> {
        let review_spec = review_spec(&request.user_info, &request.namespace);
        match self.access.allows(review_spec, request.call_budget).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Notice::forbidden(
                &request.user_info.username,
                &request.namespace,
            )),
            Err(error) => Err(Notice::not_authorized(&error)),
        }
    }
}

fn review_spec(user: &UserInfo, namespace: &str) -> SubjectAccessReviewSpec {
    let attributes = ResourceAttributes {
        namespace: Some(namespace.to_owned()),
        verb: Some("create".to_owned()),
        version: Some("v1".to_owned()),
        resource: Some("persistentvolumeclaims".to_owned()),
        ..ResourceAttributes::default()
    };
    SubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        user: Some(user.username.clone()),
        uid: Some(user.uid.clone()).filter(|uid| !uid.is_empty()),
        groups: Some(user.groups.clone()),
        extra: Some(user.extra.clone()),
        ..SubjectAccessReviewSpec::default()
    }
}
