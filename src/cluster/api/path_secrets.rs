//! Messages of the API server for the log. They may quote the object that a request would have
//! changed: its values, which a user chose, and the secret path of the webhooks.

use std::fmt::Display;

/// Maximum length of an error in a log line, in bytes.
const MAX_ERROR: usize = 2048;

/// Number of lower-case hex digits of the secret in the path of a webhook.
pub const PATH_SECRET_DIGITS: usize = 64;

/// Returns the error for a log line: at most [`MAX_ERROR`] bytes, and without what may be the
/// secret of a path.
pub fn for_log(error: impl Display) -> String {
    let mut shown = without_path_secrets(&error.to_string());
    if shown.len() > MAX_ERROR {
        shown.truncate(shown.floor_char_boundary(MAX_ERROR - '…'.len_utf8()));
        shown.push('…');
    }
    shown
}

/// Returns the text with `…` in place of all that may be the secret of a path: every sequence of at
/// least [`PATH_SECRET_DIGITS`] lower-case hex digits. So it also hides a path that another replica
/// has just published.
fn without_path_secrets(text: &str) -> String {
    let is_digit = |each: char| matches!(each, '0'..='9' | 'a'..='f');
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(begin) = rest.find(is_digit) {
        let (before, from) = rest.split_at(begin);
        let end = from.find(|each| !is_digit(each)).unwrap_or(from.len());
        let (digits, after) = from.split_at(end);
        shown += before;
        shown += if digits.len() < PATH_SECRET_DIGITS {
            digits
        } else {
            "…"
        };
        rest = after;
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_secrets_are_left_out() {
        let secret = "0123456789abcdef".repeat(4);
        for (text, shown) in [
            (
                format!("invalid value: \"/{secret}/pvc-protection/claims\", é"),
                "invalid value: \"/…/pvc-protection/claims\", é",
            ),
            (format!("{secret}: {secret}0"), "…: …"),
            (secret[1..].to_owned(), &secret[1..]),
            (secret.to_uppercase(), &secret.to_uppercase()),
            (
                "ApiError: a bad deed (422)".to_owned(),
                "ApiError: a bad deed (422)",
            ),
            (String::new(), ""),
        ] {
            assert_eq!(for_log(&text), shown, "{text}");
        }
    }

    /// A user can choose the values that the API server quotes.
    #[test]
    fn a_long_error_is_cut() {
        let shown = for_log("é".repeat(MAX_ERROR));
        assert_eq!((shown.len(), shown.ends_with("é…")), (MAX_ERROR - 1, true));
        let longest = "x".repeat(MAX_ERROR);
        assert_eq!(for_log(&longest), longest);
    }
}
