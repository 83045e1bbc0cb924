//! Durations as Go programs take them: `20s`, `1h30m`, `1.5h`, `250ms`, `0`.

use k8s_openapi::jiff::SignedDuration;
use std::time::Duration;

/// Reads one.
///
/// # Errors
/// When it is none, or is negative.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    // Other notations are told from this one by their first character.
    let begins_well = text.starts_with(|first: char| first.is_ascii_digit());
    let read = text.parse::<SignedDuration>().ok();
    let read = read.filter(|_| begins_well);
    read.and_then(|read| Duration::try_from(read).ok())
        .ok_or_else(|| "a duration is wanted, such as 20s, 5m, 1h30m or 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_are_read() {
        let milliseconds = |text| parse(text).map(|duration| duration.as_millis());
        for (text, expected) in [
            ("0", 0),
            ("0s", 0),
            ("20s", 20_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1h0m5s", 3_605_000),
            ("1.5h", 5_400_000),
            ("1m0.5s", 60_500),
            ("250ms", 250),
            ("1h30m0s", 5_400_000),
        ] {
            assert_eq!(milliseconds(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "", "5", "-5s", "+5s", "s", "5x", "PT5S", "soon", "5s ago", "1h30",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
