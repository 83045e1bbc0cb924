//! What a component offers to admission: a path, what may be sent there, and a function from a request to an answer.

use crate::objects::{
    finalizers::{self, Standing},
    patch::remove,
};
use futures::future::BoxFuture;
use json_patch::PatchOperation;
use kube::api::ObjectMeta;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// One webhook.
#[derive(Clone)]
pub struct Hook {
    /// Where the API server sends its reviews.
    pub path: &'static str,
    /// What may be sent there. Anything else is a webhook configuration gone wrong, and is said to be.
    pub rules: &'static [Rule],
    /// The review.
    pub review: Review,
}

/// How a request becomes an answer.
#[derive(Clone)]
pub enum Review {
    /// From what is in memory, calling nobody.
    FromMemory(Arc<dyn Fn(&Request) -> Answer + Send + Sync>),
    /// After asking the API server, which waits for us meanwhile: within less than the webhook's timeout, and by as few calls as can
    /// be.
    Asking(Arc<dyn Fn(Arc<Request>) -> BoxFuture<'static, Answer> + Send + Sync>),
}

impl Review {
    /// A review from memory.
    pub fn from_memory(review: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::FromMemory(Arc::new(review))
    }

    /// The answer. It panics if the review does.
    pub async fn answer(&self, request: Arc<Request>) -> Answer {
        match self {
            Self::FromMemory(review) => review(&request),
            Self::Asking(review) => review(request).await,
        }
    }

    /// The answer of a review that asks nobody.
    #[cfg(test)]
    pub(crate) fn remembered(&self, request: &Request) -> Answer {
        match self {
            Self::FromMemory(review) => review(request),
            Self::Asking(_) => unreachable!("this review asks the API server"),
        }
    }

    /// This review, and `also` what another one wants of the same object: so that the API server has to call once only.
    pub fn and(self, also: Self) -> Self {
        Self::Asking(Arc::new(move |request| {
            let (first, also) = (self.clone(), also.clone());
            Box::pin(async move {
                let answer = first.answer(request.clone()).await;
                answer.and(also.answer(request).await)
            })
        }))
    }
}

/// An operation on a resource, as in a webhook configuration's `rules`.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// CREATE, UPDATE, DELETE or CONNECT.
    pub operation: &'static str,
    /// The plural.
    pub resource: &'static str,
    /// Empty for the object itself.
    pub subresource: &'static str,
}

impl Rule {
    /// Whether the request is one of these.
    pub fn covers(&self, request: &Request) -> bool {
        self.operation == request.operation
            && self.resource == request.resource.resource
            && self.subresource == request.sub_resource
            && request.resource.group.is_empty()
    }
}

/// The request of an admission review; the objects in it are not parsed before somebody asks for them.
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
    /// The answer to give when there is none or it cannot be read.
    pub fn object<T: DeserializeOwned>(&self) -> Result<T, Answer> {
        read("object", self.object.as_deref())
    }

    /// The object as it is stored.
    ///
    /// # Errors
    /// The answer to give when there is none or it cannot be read.
    pub fn old_object<T: DeserializeOwned>(&self) -> Result<T, Answer> {
        read("oldObject", self.old_object.as_deref())
    }
}

/// The API server has read the object before us: if we cannot, the fault is ours, and no user's to wait for.
fn read<T: DeserializeOwned>(field: &str, raw: Option<&RawValue>) -> Result<T, Answer> {
    let raw = raw.ok_or_else(|| Answer::unavailable(format!("the review has no {field}")))?;
    serde_json::from_str(raw.get()).map_err(|error| {
        Answer::unavailable(format!("the review's {field} cannot be read: {error}"))
    })
}

/// What a hook answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// As it is.
    Allow,
    /// As it is, with sentences for whoever asked; `kubectl` prints them.
    Warn(Vec<String>),
    /// Not at all, with a sentence for whoever asked and an HTTP status code.
    Deny {
        /// 403 where it is forbidden, 422 where it cannot be done.
        code: u16,
        /// What is wrong and what to do about it.
        message: String,
    },
    /// With these changes.
    Patch {
        /// Idempotent, and of no side effect.
        operations: Vec<PatchOperation>,
        /// In words: "add the finalizer …".
        what: String,
    },
    /// This replica cannot tell, yet or at all. The API server then does what the webhook's `failurePolicy` says, and counts it.
    Unavailable(Cow<'static, str>),
}

impl Answer {
    /// Forbidden, with a sentence for the user.
    pub fn deny(message: String) -> Self {
        Self::Deny { code: 403, message }
    }

    /// As it is, with that sentence if there is one.
    pub fn warned(sentence: Option<String>) -> Self {
        sentence.map_or(Self::Allow, |sentence| Self::Warn(vec![sentence]))
    }

    /// Nothing that could be told: why, for the logs of the API server.
    pub fn unavailable(why: impl Into<Cow<'static, str>>) -> Self {
        Self::Unavailable(why.into())
    }

    /// With the finalizer appended, where the object needs it.
    pub fn with_finalizer(standing: Standing, finalizers: &[Box<str>], finalizer: &str) -> Self {
        match standing {
            Standing::NeedsFinalizer => Self::Patch {
                operations: vec![finalizers::append(finalizers, finalizer)],
                what: format!("add the finalizer {finalizer}"),
            },
            Standing::DeletionCandidate | Standing::Settled => Self::Allow,
        }
    }

    /// Without the annotation, where the object has it.
    pub fn without_annotation(metadata: &ObjectMeta, key: &str) -> Self {
        let mut keys = metadata.annotations.iter().flat_map(BTreeMap::keys);
        if !keys.any(|each| each == key) {
            return Self::Allow;
        }
        Self::Patch {
            operations: vec![remove(&["annotations", key])],
            what: format!("remove the annotation {key}"),
        }
    }

    /// Both answers in one: refused if either refuses, both changes otherwise. The changes must not touch the same fields.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (refused @ Self::Deny { .. }, _) | (_, refused @ Self::Deny { .. }) => refused,
            // A patch has no room for sentences, and matters more.
            (Self::Allow | Self::Warn(_) | Self::Unavailable(_), other @ Self::Patch { .. }) => {
                other
            }
            (Self::Warn(mut sentences), Self::Warn(more)) => {
                sentences.extend(more);
                Self::Warn(sentences)
            }
            (Self::Allow | Self::Unavailable(_), warning @ Self::Warn(_)) => warning,
            (
                Self::Patch {
                    mut operations,
                    what,
                },
                Self::Patch {
                    operations: more,
                    what: also,
                },
            ) => {
                operations.extend(more);
                let what = format!("{what} and {also}");
                Self::Patch { operations, what }
            }
            (first, Self::Allow | Self::Warn(_) | Self::Unavailable(_)) => first,
        }
    }

    /// For the metrics.
    pub(super) fn verdict(&self) -> &'static str {
        match self {
            Self::Allow => "Allowed",
            Self::Warn(_) => "Warned",
            Self::Deny { .. } => "Denied",
            Self::Patch { .. } => "Patched",
            Self::Unavailable(_) => "Unavailable",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(finalizer: &str) -> Answer {
        Answer::Patch {
            operations: vec![finalizers::append(&[], finalizer)],
            what: format!("add {finalizer}"),
        }
    }

    #[test]
    fn two_answers_make_one() {
        let (deny, away) = (Answer::deny("no".into()), Answer::unavailable("not yet"));
        for (first, second, both) in [
            (Answer::Allow, Answer::Allow, Answer::Allow),
            (patch("a"), Answer::Allow, patch("a")),
            (Answer::Allow, patch("a"), patch("a")),
            (deny.clone(), patch("a"), deny.clone()),
            (patch("a"), deny.clone(), deny),
            // What one of them knows is not withheld because the other is not ready.
            (away.clone(), patch("a"), patch("a")),
            (patch("a"), away.clone(), patch("a")),
            (away.clone(), Answer::Allow, away),
        ] {
            assert_eq!(first.and(second), both);
        }
        let Answer::Patch { operations, what } = patch("a").and(patch("b")) else {
            unreachable!("both change something");
        };
        assert_eq!((operations.len(), what.as_str()), (2, "add a and add b"));
    }
}
