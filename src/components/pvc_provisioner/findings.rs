//! What a review of a pod found, and the answer that it gives.

use super::{Notice, failure::shortened};
use crate::admission::Answer;

/// Maximum length of a warning in bytes; the API server may truncate a longer one.
const WARNING_LIMIT: usize = 250;
/// Maximum length of a refusal in bytes. A controller repeats it in an Event for each attempt.
const REFUSAL_LIMIT: usize = 1024;

/// The notices about a pod that the webhook reviews.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) notices: Vec<Notice>,
    /// Whether a template or an annotation is invalid, according to Volume Warden or the API
    /// server, so that the pod is refused with `--strict-templates`.
    pub(super) invalid: bool,
}

impl Findings {
    pub(super) fn invalid(&mut self, notices: impl IntoIterator<Item = Notice>) {
        let before = self.notices.len();
        self.notices.extend(notices);
        self.invalid |= self.notices.len() > before;
    }

    pub(super) fn answer(self, strict: bool) -> Answer {
        let sentences = self.notices.into_iter().map(|each| each.sentence);
        if strict && self.invalid {
            let message = sentences.collect::<Vec<_>>().join("; ");
            let message = shortened(message, REFUSAL_LIMIT);
            return Answer::Deny { code: 422, message };
        }
        let warnings: Vec<_> = sentences
            .map(|sentence| shortened(sentence, WARNING_LIMIT))
            .collect();
        if warnings.is_empty() {
            Answer::Allow
        } else {
            Answer::Warn(warnings)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[&str]) -> Findings {
        let notices = texts.iter().map(|text| Notice::not_a_boolean("data", text));
        let mut findings = Findings::default();
        findings.invalid(notices.map(|notice| Notice {
            sentence: notice.sentence.repeat(5),
            ..notice
        }));
        findings
    }

    #[test]
    fn warnings_and_refusals_are_truncated_at_a_character_boundary() {
        let Answer::Warn(warnings) = found(&["ä", "ö"]).answer(false) else {
            unreachable!("there are two findings");
        };
        let cut = |text: &String, limit| text.len() <= limit && text.ends_with('…');
        assert!(
            warnings.iter().all(|text| cut(text, WARNING_LIMIT)),
            "{warnings:?}"
        );
        let Answer::Deny { message, .. } = found(&["ä"; 9]).answer(true) else {
            unreachable!("the annotations are invalid");
        };
        assert!(cut(&message, REFUSAL_LIMIT), "{message}");
        assert_eq!(shortened("short".into(), 5), "short");
        assert_eq!(shortened("ääää".into(), 7), "ää…");
    }
}
