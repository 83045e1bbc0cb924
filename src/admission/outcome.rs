//! The result of a review, which two components may have computed together.

use super::answer::{Answer, Reviewed};
use crate::telemetry::admission::{PARTIAL, UNAVAILABLE};

/// The result of a review.
pub(super) struct Outcome {
    pub(super) reviewed: Reviewed,
    /// Whether a review that was combined with others failed.
    partial: bool,
}

impl From<Reviewed> for Outcome {
    fn from(reviewed: Reviewed) -> Self {
        let partial = false;
        Self { reviewed, partial }
    }
}

impl Outcome {
    /// Combines the outcomes of two reviews of one object. If only one is unavailable, the patch,
    /// warning or denial of the other is the result. If the other allows the request unchanged, the
    /// result is unavailable.
    pub(super) fn and(self, also: Self) -> Self {
        let differ = self.reviewed.is_ok() != also.reviewed.is_ok();
        Self {
            partial: self.partial || also.partial || differ,
            reviewed: both(self.reviewed, also.reviewed),
        }
    }

    /// Returns the value of the metric label `verdict`. A denial is complete even if another review
    /// failed, which could not have changed it.
    pub(super) fn verdict(&self) -> &'static str {
        match &self.reviewed {
            Err(_) => UNAVAILABLE,
            Ok(Answer::Warn(_) | Answer::Patch { .. }) if self.partial => PARTIAL,
            Ok(answer) => answer.verdict(),
        }
    }
}

fn both(first: Reviewed, second: Reviewed) -> Reviewed {
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
    use crate::{admission::Unavailable, objects::finalizers};

    fn patch() -> Answer {
        Answer::Patch {
            operations: vec![finalizers::append(&[], "a")],
            what: "add a".to_owned(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn the_result_of_one_review_is_kept_if_the_other_is_unavailable() {
        let away = || Err(Unavailable::new("not yet"));
        let deny = || Answer::deny("no".to_owned());
        let warn = || Answer::Warn(vec!["w".to_owned()]);
        for (first, second, expected, verdict) in [
            (Ok(patch()), away(), Ok(patch()), "Partial"),
            (Ok(warn()), away(), Ok(warn()), "Partial"),
            (Ok(deny()), away(), Ok(deny()), "Denied"),
            (Ok(Answer::Allow), away(), away(), "Unavailable"),
            (away(), away(), away(), "Unavailable"),
            (Ok(Answer::Allow), Ok(patch()), Ok(patch()), "Patched"),
        ] {
            let both = |first: &Reviewed, second: &Reviewed| {
                Outcome::from(first.clone()).and(second.clone().into())
            };
            for outcome in [both(&first, &second), both(&second, &first)] {
                assert_eq!(outcome.verdict(), verdict, "{expected:?}");
                assert_eq!(outcome.reviewed, expected);
            }
        }
    }

    #[test]
    fn a_third_review_does_not_hide_that_one_failed() {
        let away = Outcome::from(Err(Unavailable::new("not yet")));
        let outcome = away.and(Ok(patch()).into()).and(Ok(Answer::Allow).into());
        assert_eq!(outcome.verdict(), "Partial");
    }
}
