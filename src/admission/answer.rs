//! Answers of webhooks to admission reviews.

use crate::objects::finalizers::{self, FinalizerState};
use json_patch::PatchOperation;
use std::borrow::Cow;

/// The answer of a webhook to an admission review.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The request is allowed unchanged.
    Allow,
    /// The request is allowed unchanged, with warnings for the client; `kubectl` prints them.
    Warn(Vec<String>),
    /// The request is denied, with a message for the client and an HTTP status code.
    Deny {
        /// 403 for a forbidden request, 422 for a request that cannot be carried out.
        code: u16,
        /// States what is wrong with the request and what the user can do about it.
        message: String,
    },
    /// The request is allowed, and the API server applies these changes to the object.
    Patch {
        /// The JSON patch. If the API server sends the patched object to the webhook again, the
        /// webhook changes nothing more.
        operations: Vec<PatchOperation>,
        /// Describes the patch for the warning of a dry run, starting with a verb: "add the
        /// finalizer …".
        what: String,
        /// Warnings for the client, for example about the patch; `kubectl` prints them.
        warnings: Vec<String>,
    },
}

/// This replica cannot answer a review, for the reason given here. The API server logs the reason,
/// counts a failed webhook call and applies the webhook's `failurePolicy`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(Cow<'static, str>);

/// The result of a review: an answer, or the reason why there is none.
pub type Reviewed = Result<Answer, Unavailable>;

impl Unavailable {
    /// Creates the error; `why` is a sentence.
    pub fn new(why: impl Into<Cow<'static, str>>) -> Self {
        Self(why.into())
    }
}

impl Answer {
    /// Denies the request with status 403; the message is a sentence for the user.
    pub fn deny(message: String) -> Self {
        Self::Deny { code: 403, message }
    }

    /// Allows the request unchanged, with `sentence` as a warning if it is set.
    pub fn warned(sentence: Option<String>) -> Self {
        sentence.map_or(Self::Allow, |sentence| Self::Warn(vec![sentence]))
    }

    /// Allows the request, and appends the finalizer if the object lacks it and is not being
    /// deleted.
    pub fn with_finalizer(
        standing: FinalizerState,
        finalizers: &[Box<str>],
        finalizer: &str,
    ) -> Self {
        match standing {
            FinalizerState::NeedsFinalizer => Self::Patch {
                operations: vec![finalizers::append(finalizers, finalizer)],
                what: format!("add the finalizer {finalizer}"),
                warnings: Vec::new(),
            },
            FinalizerState::DeletionCandidate | FinalizerState::Settled => Self::Allow,
        }
    }

    /// Combines two answers about one object. A denial replaces the other answer; otherwise the
    /// result has the changes and the warnings of both answers. Two patches must not touch the
    /// same fields.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (refused @ Self::Deny { .. }, _) | (_, refused @ Self::Deny { .. }) => refused,
            (Self::Allow, other @ Self::Patch { .. }) => other,
            (
                Self::Warn(mut sentences),
                Self::Patch {
                    operations,
                    what,
                    warnings,
                },
            )
            | (
                Self::Patch {
                    operations,
                    what,
                    warnings,
                },
                Self::Warn(mut sentences),
            ) => {
                sentences.extend(warnings);
                Self::Patch {
                    operations,
                    what,
                    warnings: sentences,
                }
            }
            (Self::Warn(mut sentences), Self::Warn(more)) => {
                sentences.extend(more);
                Self::Warn(sentences)
            }
            (Self::Allow, warning @ Self::Warn(_)) => warning,
            (
                Self::Patch {
                    mut operations,
                    what,
                    mut warnings,
                },
                Self::Patch {
                    operations: more,
                    what: also,
                    warnings: further,
                },
            ) => {
                operations.extend(more);
                warnings.extend(further);
                Self::Patch {
                    operations,
                    what: format!("{what} and {also}"),
                    warnings,
                }
            }
            (first, Self::Allow) => first,
        }
    }

    /// Returns the value of the metric label `verdict`.
    pub(crate) fn verdict(&self) -> &'static str {
        match self {
            Self::Allow => "Allowed",
            Self::Warn(_) => "Warned",
            Self::Deny { .. } => "Denied",
            Self::Patch { .. } => "Patched",
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
            warnings: Vec::new(),
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
        let Answer::Patch {
            operations, what, ..
        } = patch("a").and(patch("b"))
        else {
            unreachable!("both change something");
        };
        assert_eq!((operations.len(), what.as_str()), (2, "add a and add b"));
        let warned = || Answer::Warn(vec!["w".to_owned()]);
        for both in [patch("a").and(warned()), warned().and(patch("a"))] {
            let Answer::Patch { warnings, .. } = both else {
                unreachable!("one changes something");
            };
            assert_eq!(warnings, ["w"]);
        }
    }
}
