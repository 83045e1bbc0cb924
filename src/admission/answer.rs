//! Answers of webhooks.

use crate::objects::{
    finalizers::{self, FinalizerState},
    patch::remove,
};
use json_patch::PatchOperation;
use kube::api::ObjectMeta;
use std::{borrow::Cow, collections::BTreeMap};

/// What a hook answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// As it is.
    Allow,
    /// Allowed unchanged, with warnings for the client; `kubectl` prints them.
    Warn(Vec<String>),
    /// Denied, with a message for the client and an HTTP status code.
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
}

/// This replica cannot answer, yet or at all: why, for the log of the API server, which then does
/// what the webhook's `failurePolicy` says, and counts it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(Cow<'static, str>);

/// What became of a review.
pub type Reviewed = Result<Answer, Unavailable>;

impl Unavailable {
    /// For this reason, a sentence.
    pub fn new(why: impl Into<Cow<'static, str>>) -> Self {
        Self(why.into())
    }
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

    /// With the finalizer appended, where the object needs it.
    pub fn with_finalizer(
        standing: FinalizerState,
        finalizers: &[Box<str>],
        finalizer: &str,
    ) -> Self {
        match standing {
            FinalizerState::NeedsFinalizer => Self::Patch {
                operations: vec![finalizers::append(finalizers, finalizer)],
                what: format!("add the finalizer {finalizer}"),
            },
            FinalizerState::DeletionCandidate | FinalizerState::Settled => Self::Allow,
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

    /// Both answers in one: refused if either refuses, both changes otherwise. The changes must
    /// not touch the same fields.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (refused @ Self::Deny { .. }, _) | (_, refused @ Self::Deny { .. }) => refused,
            // A patch has no room for sentences, and matters more.
            (Self::Allow | Self::Warn(_), other @ Self::Patch { .. }) => other,
            (Self::Warn(mut sentences), Self::Warn(more)) => {
                sentences.extend(more);
                Self::Warn(sentences)
            }
            (Self::Allow, warning @ Self::Warn(_)) => warning,
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
            (first, Self::Allow | Self::Warn(_)) => first,
        }
    }

    /// For the metrics.
    pub(crate) fn verdict(&self) -> &'static str {
        match self {
            Self::Allow => "Allowed",
            Self::Warn(_) => "Warned",
            Self::Deny { .. } => "Denied",
            Self::Patch { .. } => "Patched",
        }
    }
}

/// Combines two reviews of one object. If one is unavailable, a patch, warning or denial of the
/// other is still returned; if the other allows, the combined review is unavailable.
pub(super) fn both(first: Reviewed, second: Reviewed) -> Reviewed {
    match (first, second) {
        (Ok(first), Ok(second)) => Ok(first.and(second)),
        (Ok(Answer::Allow), unknown @ Err(_)) | (unknown @ Err(_), Ok(Answer::Allow)) => unknown,
        (known @ Ok(_), Err(_)) | (Err(_), known @ Ok(_)) => known,
        (unknown @ Err(_), Err(_)) => unknown,
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
        let deny = Answer::deny("no".into());
        for (first, second, both) in [
            (Answer::Allow, Answer::Allow, Answer::Allow),
            (patch("a"), Answer::Allow, patch("a")),
            (Answer::Allow, patch("a"), patch("a")),
            (deny.clone(), patch("a"), deny.clone()),
            (patch("a"), deny.clone(), deny),
        ] {
            assert_eq!(first.and(second), both);
        }
        let Answer::Patch { operations, what } = patch("a").and(patch("b")) else {
            unreachable!("both change something");
        };
        assert_eq!((operations.len(), what.as_str()), (2, "add a and add b"));
    }

    #[test]
    fn the_result_of_one_review_is_kept_if_the_other_is_unavailable() {
        let away = || Err(Unavailable::new("not yet"));
        for (first, second, expected) in [
            (away(), Ok(patch("a")), Ok(patch("a"))),
            (Ok(patch("a")), away(), Ok(patch("a"))),
            (
                away(),
                Ok(Answer::deny("no".into())),
                Ok(Answer::deny("no".into())),
            ),
            (away(), Ok(Answer::Allow), away()),
            (Ok(Answer::Allow), away(), away()),
            (away(), away(), away()),
        ] {
            assert_eq!(both(first, second), expected);
        }
    }
}
