//! Messages of the API server for the log, without the secret path of the webhooks: it may quote the
//! object that a request would have changed.

/// Number of lower-case hex digits of the secret in the path of a webhook.
pub const PATH_SECRET_DIGITS: usize = 64;

/// Returns the text with `…` in place of all that may be the secret of a path: every sequence of at
/// least [`PATH_SECRET_DIGITS`] lower-case hex digits. So it also hides a path that another replica
/// has just published.
pub fn without_path_secrets(text: &str) -> String {
    let is_digit = |each: char| matches!(each, '0'..='9' | 'a'..='f');
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(begin) = rest.find(is_digit) {
        let (before, from) = rest.split_at(begin);
        let end = from.find(|each| !is_digit(each)).unwrap_or(from.len());
        let (digits, after) = from.split_at(end);
        shown += before;
        shown += match digits.len() < PATH_SECRET_DIGITS {
            true => digits,
            false => "…",
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
            assert_eq!(without_path_secrets(&text), shown, "{text}");
        }
    }
}
