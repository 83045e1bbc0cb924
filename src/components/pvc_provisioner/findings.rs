//! What a review of a pod found, and the answer that it gives.

use super::Notice;
use crate::admission::Answer;

/// Maximum length of a warning in bytes; the API server may truncate a longer one.
const WARNING_LIMIT: usize = 250;

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
            return Answer::Deny { code: 422, message };
        }
        let warnings: Vec<_> = sentences.map(shortened).collect();
        if warnings.is_empty() {
            Answer::Allow
        } else {
            Answer::Warn(warnings)
        }
    }
}

fn shortened(mut sentence: String) -> String {
    if sentence.len() > WARNING_LIMIT {
        sentence.truncate(sentence.floor_char_boundary(WARNING_LIMIT - '…'.len_utf8()));
        sentence.push('…');
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_truncated_at_a_character_boundary() {
        let long = shortened("ä".repeat(WARNING_LIMIT));
        assert!(
            long.len() <= WARNING_LIMIT && long.ends_with("ä…"),
            "{long}"
        );
        assert_eq!(shortened("short".into()), "short");
    }
}
