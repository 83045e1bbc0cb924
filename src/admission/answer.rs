//! What it is answered.

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
    pub(crate) fn verdict(&self) -> &'static str {
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
