//! Requests of admission reviews.

use super::{answer::Unavailable, call_budget};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::{collections::BTreeMap, time::Duration};

/// The request of an admission review; the objects in it are parsed on demand.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Echoed in every answer: the API server takes no other.
    pub uid: String,
    /// What is asked to be changed.
    pub resource: GroupVersionResource,
    /// Empty for the object itself.
    #[serde(default)]
    pub sub_resource: String,
    /// Empty where the API server is to make a name (`generateName`).
    #[serde(default)]
    pub name: String,
    /// Empty for cluster-scoped objects.
    #[serde(default)]
    pub namespace: String,
    /// CREATE, UPDATE, DELETE or CONNECT.
    pub operation: String,
    /// Nothing will be stored.
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// Who asks.
    #[serde(default)]
    pub user_info: UserInfo,
    /// For everything that is asked of the API server about this: less than it waits for the
    /// answer.
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
    /// `system:serviceaccount:<namespace>:<name>` for a service account.
    #[serde(default)]
    pub username: String,
    /// Unique across time, where the authenticator says it.
    #[serde(default)]
    pub uid: String,
    /// The groups it is in.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Whatever else the authenticator says.
    #[serde(default)]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// As the API server spells it.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct GroupVersionResource {
    /// Empty for the core group.
    #[serde(default)]
    pub group: String,
    /// The plural.
    #[serde(default)]
    pub resource: String,
}

impl Request {
    /// The object as it would be stored.
    ///
    /// # Errors
    /// When there is none or it cannot be read.
    pub fn object<T: DeserializeOwned>(&self) -> Result<T, Unavailable> {
        read("object", self.object.as_deref())
    }

    /// The object as it is stored.
    ///
    /// # Errors
    /// When there is none or it cannot be read.
    pub fn old_object<T: DeserializeOwned>(&self) -> Result<T, Unavailable> {
        read("oldObject", self.old_object.as_deref())
    }
}

fn default_budget() -> Duration {
    call_budget::DEFAULT_BUDGET
}

/// The API server has already parsed the object: if Volume Warden cannot, this is its own error,
/// and no user can correct it.
fn read<T: DeserializeOwned>(field: &str, raw: Option<&RawValue>) -> Result<T, Unavailable> {
    let raw = raw.ok_or_else(|| Unavailable::new(format!("the review has no {field}")))?;
    serde_json::from_str(raw.get())
        .map_err(|error| Unavailable::new(format!("the review's {field} cannot be read: {error}")))
}
