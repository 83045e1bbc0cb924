//! A StorageOS token, as the response to a login or a refresh contains it.

use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use serde::Deserialize;
use std::time::Duration;
use tokio::time::Instant;

/// Headers with the lifetime of the token: a login sets the first one, a refresh the second one.
const EXPIRES: [HeaderName; 2] = [
    HeaderName::from_static("authorization-expires-seconds"),
    HeaderName::from_static("authorization-expires-in"),
];
/// Minimum time from the request for a token to its refresh, so that neither a very short lifetime
/// nor a very short `interval` causes constant refreshes. A lifetime of 0 counts as not reported.
const SHORTEST: Duration = Duration::from_millis(500);

/// A StorageOS token, which is sent with every request except a login. Its `Debug` output omits the
/// secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// The value of the `Authorization` header: `Bearer …`.
    pub(super) header: HeaderValue,
    /// When the token is refreshed: after half of its lifetime, but at least [`SHORTEST`] after the
    /// request for it.
    pub(super) due: Instant,
}

#[derive(Default, Deserialize)]
struct UserSession {
    session: Option<Inner>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Inner {
    token: Option<String>,
    expires_in_seconds: Option<u64>,
}

impl Token {
    /// Reads the token from the response to a request sent at `requested_at`; none if there is no
    /// valid token. The header takes precedence over the body. If the server does not report a
    /// lifetime, it is twice the `interval`.
    pub(super) fn granted(
        headers: &HeaderMap,
        body: &[u8],
        requested_at: Instant,
        interval: Duration,
    ) -> Option<Self> {
        let body: UserSession = serde_json::from_slice(body).unwrap_or_default();
        let from_body = body
            .session
            .as_ref()
            .and_then(|inner| inner.token.as_deref());
        let from_header = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        let header = from_header
            .and_then(bearer)
            .or_else(|| from_body.and_then(bearer))?;
        let reported = EXPIRES.iter().find_map(|name| seconds(headers.get(name)?));
        let reported = reported.or_else(|| body.session?.expires_in_seconds);
        let life = reported
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs);
        let half = life.map_or(interval, |life| life / 2).max(SHORTEST);
        // A lifetime that the clock cannot represent counts as not reported.
        let due = requested_at
            .checked_add(half)
            .unwrap_or(requested_at + interval.max(SHORTEST));
        Some(Self { header, due })
    }

    /// Removes the token from the text.
    pub(super) fn redact(&self, text: String) -> String {
        let header = self.header.to_str().unwrap_or_default();
        match header.strip_prefix("Bearer ") {
            Some(secret) if !secret.is_empty() => text.replace(secret, "…"),
            _ => text,
        }
    }
}

/// Returns the `Authorization` header for a token, which may begin with the word `Bearer`.
fn bearer(text: &str) -> Option<HeaderValue> {
    let text = text.trim();
    let secret = match text.split_once(char::is_whitespace) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => rest.trim(),
        _ if text.eq_ignore_ascii_case("bearer") => "",
        _ => text,
    };
    if secret.is_empty() {
        return None;
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {secret}")).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// Parses a lifetime in seconds. The API specification calls it a duration but types it as an
/// integer, so `300` and `300s` are the same.
fn seconds(value: &HeaderValue) -> Option<u64> {
    let text = value.to_str().ok()?.trim();
    text.strip_suffix('s').unwrap_or(text).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(60);

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    fn token(headers: &HeaderMap, body: &str) -> Option<String> {
        let granted = Token::granted(headers, body.as_bytes(), Instant::now(), INTERVAL)?;
        Some(granted.header.to_str().expect("text").to_owned())
    }

    fn half(pairs: &[(&'static str, &'static str)], body: &str) -> Duration {
        let requested_at = Instant::now();
        let mut headers = headers(pairs);
        headers.insert(AUTHORIZATION, HeaderValue::from_static("t"));
        let granted =
            Token::granted(&headers, body.as_bytes(), requested_at, INTERVAL).expect("granted");
        granted.due - requested_at
    }

    #[test]
    fn ns_31_the_token_is_found_wherever_it_is() {
        let body = r#"{"username": "u", "session": {"token": "body"}}"#;
        for (header, expected) in [
            ("Bearer head", "Bearer head"),
            ("bearer  head ", "Bearer head"),
            ("head", "Bearer head"),
            ("", "Bearer body"),
            ("Bearer", "Bearer body"),
            ("Bearer ", "Bearer body"),
        ] {
            let headers = headers(&[("authorization", header)]);
            assert_eq!(token(&headers, body).as_deref(), Some(expected), "{header}");
        }
        let none = HeaderMap::new();
        assert_eq!(token(&none, body).as_deref(), Some("Bearer body"));
        for body in [
            "",
            "junk",
            "{}",
            r#"{"session": {}}"#,
            r#"{"session": {"token": ""}}"#,
            r#"{"session": {"token": "a\nb: c"}}"#,
        ] {
            assert_eq!(token(&none, body), None, "{body}");
        }
    }

    #[test]
    fn a_token_is_due_at_half_of_its_reported_lifetime() {
        let second = Duration::from_secs(1);
        let body = r#"{"session": {"expiresInSeconds": 10}}"#;
        assert_eq!(
            half(&[("authorization-expires-seconds", "300")], body),
            150 * second
        );
        assert_eq!(
            half(&[("authorization-expires-in", "300s")], body),
            150 * second
        );
        assert_eq!(
            half(&[("authorization-expires-in", "soon")], body),
            5 * second
        );
        assert_eq!(half(&[], body), 5 * second);
        assert_eq!(half(&[], "{}"), INTERVAL);
        assert_eq!(
            half(&[("authorization-expires-seconds", "0")], "{}"),
            INTERVAL
        );
        assert_eq!(
            half(&[("authorization-expires-seconds", "1")], "{}"),
            SHORTEST
        );
        assert_eq!(
            half(
                &[("authorization-expires-seconds", "18446744073709551615")],
                "{}"
            ),
            INTERVAL
        );
    }

    #[test]
    fn debug_output_omits_the_token() {
        let headers = headers(&[("authorization", "Bearer secret")]);
        let granted = Token::granted(&headers, b"", Instant::now(), INTERVAL).expect("granted");
        assert!(!format!("{granted:?}").contains("secret"));
        assert_eq!(granted.redact("not a secret".into()), "not a …");
    }
}
