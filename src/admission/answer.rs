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

    /// Creates the error that a watch which the review reads has no complete list yet.
    pub fn unsynced(objects: &str) -> Self {
        Self::new(format!("the watch of {objects} has no complete list yet"))
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
    pub fn with_finalizer(state: FinalizerState, finalizers: &[Box<str>], finalizer: &str) -> Self {
        match state {
            FinalizerState::NeedsFinalizer => Self::Patch {
                operations: vec![finalizers::append(finalizers, finalizer)],
                what: format!("add the finalizer {finalizer}"),
                warnings: Vec::new(),
            },
            FinalizerState::DeletionCandidate | FinalizerState::UpToDate => Self::Allow,
        }
    }

    /// Combines two answers about one object. A denial replaces the other answer; otherwise the
    /// result has the changes and the warnings of both answers. Two patches must not touch the
    /// same fields.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self.allowed(), other.allowed()) {
            (Err(denial), _) | (_, Err(denial)) => denial,
            (Ok(first), Ok(second)) => first.and(second).into(),
        }
    }

    /// # Errors
    /// The answer itself, if it is a denial.
    fn allowed(self) -> Result<Allowed, Self> {
        let (patch, warnings) = match self {
            Self::Allow => (None, Vec::new()),
            Self::Warn(warnings) => (None, warnings),
            Self::Patch {
                operations,
                what,
                warnings,
            } => (Some((operations, what)), warnings),
            denial @ Self::Deny { .. } => return Err(denial),
        };
        Ok(Allowed { patch, warnings })
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

/// An answer that is no denial.
struct Allowed {
    /// The operations of the patch, and what it does.
    patch: Option<(Vec<PatchOperation>, String)>,
    warnings: Vec<String>,
}

impl Allowed {
    fn and(mut self, other: Self) -> Self {
        self.warnings.extend(other.warnings);
        let patch = match (self.patch, other.patch) {
            (Some((mut operations, what)), Some((more, also))) => {
                operations.extend(more);
                Some((operations, format!("{what} and {also}")))
            }
            (first, second) => first.or(second),
        };
        Self {
            patch,
            warnings: self.warnings,
        }
    }
}

impl From<Allowed> for Answer {
    fn from(allowed: Allowed) -> Self {
        let Allowed { patch, warnings } = allowed;
        match patch {
            Some((operations, what)) => Self::Patch {
                operations,
                what,
                warnings,
            },
            None if warnings.is_empty() => Self::Allow,
            None => Self::Warn(warnings),
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
        let warned = || Answer::Warn(vec!["w".to_owned()]);
        for (first, second, both) in [
            (Answer::Allow, Answer::Allow, Answer::Allow),
            (patch("a"), Answer::Allow, patch("a")),
            (Answer::Allow, patch("a"), patch("a")),
            (warned(), Answer::Allow, warned()),
            (Answer::Allow, warned(), warned()),
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
        for both in [patch("a").and(warned()), warned().and(patch("a"))] {
            let Answer::Patch { warnings, .. } = both else {
                unreachable!("one changes something");
            };
            assert_eq!(warnings, ["w"]);
        }
    }
}
