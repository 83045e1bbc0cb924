//! Quotes messages of Events, conditions and statuses, and lists names, in the sentence of a cause.

pub(super) use crate::columns::first;
use crate::plain::bounded;

/// Maximum number of characters that a cause quotes of one message. The API server limits neither
/// the message of an Event of `v1` without `eventTime` nor that of the status of a pod, and every
/// user who may create Events can write one.
const MOST: usize = 1000;

/// Number of characters of the longest name that Kubernetes accepts.
const LONGEST_NAME: usize = 253;

/// The message as a clause: without its final full stop, escaped, and cut after [`MOST`]
/// characters.
pub(super) fn clause(message: &str) -> String {
    bounded(message.trim().trim_end_matches('.'), MOST)
}

/// The name of an object that the API server has not checked, such as that of a claim in the spec
/// of a pod: escaped, and cut after the length of the longest name that an object can have.
pub(super) fn name(name: &str) -> String {
    bounded(name, LONGEST_NAME)
}

/// The message as [`clause`] quotes it, with a full stop if it is not cut.
pub(super) fn sentence(message: &str) -> String {
    let quoted = clause(message);
    if quoted.ends_with('…') {
        quoted
    } else {
        format!("{quoted}.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_between_characters() {
        let most = "ä".repeat(MOST);
        assert_eq!(clause(&most), most);
        assert_eq!(sentence(&most), format!("{most}."));
        let cut = format!("{most}…");
        assert_eq!(clause(&format!("{most}ä")), cut);
        assert_eq!(sentence(&format!("{most}ä")), cut);
        assert_eq!(clause(&"\u{1b}".repeat(MOST)).chars().count(), MOST + 1);
    }

    #[test]
    fn a_message_ends_with_one_full_stop() {
        assert_eq!(sentence(" no space left... "), "no space left.");
        assert_eq!(clause("no space left."), "no space left");
        assert_eq!(clause("a\nb"), "a\\nb");
    }
}
