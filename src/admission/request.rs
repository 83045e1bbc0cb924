//! Requests of admission reviews.

use super::{answer::Unavailable, call_budget};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::{collections::BTreeMap, time::Duration};

/// The request of an admission review. The objects in it are parsed on demand.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Identifies the review. The answer must repeat it, or the API server rejects the answer.
    pub uid: String,
    /// The type of the object that the request changes.
    pub resource: GroupVersionResource,
    /// The subresource that the request changes; empty for the object itself.
    #[serde(default)]
    pub sub_resource: String,
    /// The name of the object; empty if the API server generates it (`generateName`).
    #[serde(default)]
    pub name: String,
    /// The namespace of the object; empty for a cluster-scoped object.
    #[serde(default)]
    pub namespace: String,
    /// The operation on the object: CREATE, UPDATE, DELETE or CONNECT.
    pub operation: String,
    /// Whether the API server discards the change after the review.
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// The user who sent the request.
    #[serde(default)]
    pub user_info: UserInfo,
    /// Maximum time for calls to the API server during this review. It is shorter than the time for
    /// which the API server waits for the answer.
    #[serde(skip, default = "default_budget")]
    pub call_budget: Duration,
    #[serde(default)]
    object: Option<Box<RawValue>>,
    #[serde(default)]
    old_object: Option<Box<RawValue>>,
}

/// The part of a request's `userInfo` that is read.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct UserInfo {
    /// The name of the user: `system:serviceaccount:<namespace>:<name>` for a service account.
    #[serde(default)]
    pub username: String,
    /// The uid of the user, unique across time; empty if the authenticator reports none.
    #[serde(default)]
    pub uid: String,
    /// The groups that the user is a member of.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Additional attributes of the user that the authenticator reports.
    #[serde(default)]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The resource type of a request, in the API server's spelling.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct GroupVersionResource {
    /// The API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// The plural name of the resource, such as `pods`.
    #[serde(default)]
    pub resource: String,
}

impl Request {
    /// Parses the object as the API server will store it, unless a webhook changes or denies it.
    ///
    /// # Errors
    /// When the review has no such object or it cannot be parsed.
    pub fn object<T: DeserializeOwned>(&self) -> Result<T, Unavailable> {
        read("object", self.object.as_deref())
    }

    /// Parses the object as it is stored now.
    ///
    /// # Errors
    /// When the review has no such object or it cannot be parsed.
    pub fn old_object<T: DeserializeOwned>(&self) -> Result<T, Unavailable> {
        read("oldObject", self.old_object.as_deref())
    }

    /// Parses the object as it is stored now; none if the request creates it.
    ///
    /// # Errors
    /// When the request changes an object, and the review does not have it or it cannot be parsed.
    pub fn object_before<T: DeserializeOwned>(&self) -> Result<Option<T>, Unavailable> {
        match &*self.operation {
            "CREATE" => Ok(None),
            _ => self.old_object().map(Some),
        }
    }
}

fn default_budget() -> Duration {
    call_budget::DEFAULT_BUDGET
}

/// Parses an object of the review. A failure is an error of Volume Warden and not of the user,
/// because the API server has parsed the object before.
fn read<T: DeserializeOwned>(field: &str, raw: Option<&RawValue>) -> Result<T, Unavailable> {
    let raw = raw.ok_or_else(|| Unavailable::new(format!("the review has no {field}")))?;
    serde_json::from_str(raw.get())
        .map_err(|error| Unavailable::new(format!("the review's {field} cannot be read: {error}")))
}
