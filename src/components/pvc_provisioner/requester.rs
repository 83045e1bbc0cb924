//! Whether whoever creates a pod may create claims: without asking, anybody who may create pods gets claims by our rights.

use super::Notice;
use crate::{
    admission::{Request, UserInfo},
    cluster::Access,
};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};

/// See the module.
pub struct Requesters {
    access: Access,
}

impl Requesters {
    /// Asks there.
    pub fn new(access: Access) -> Self {
        Self { access }
    }

    /// Nothing where the requester may create claims in the pod's namespace.
    ///
    /// # Errors
    /// A sentence for the requester, where it may not or that could not be found out within the request's patience.
    pub async fn check(&self, request: &Request) -> Result<(), Notice> {
        let question = question(&request.user_info, &request.namespace);
        match self.access.allows(question, request.call_budget).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Notice::forbidden(
                &request.user_info.username,
                &request.namespace,
            )),
            Err(error) => Err(Notice::not_authorized(&error)),
        }
    }
}

fn question(user: &UserInfo, namespace: &str) -> SubjectAccessReviewSpec {
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
