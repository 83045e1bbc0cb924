//! Parses and formats durations in the notation of Go programs: `20s`, `1h30m`, `1.5h`, `250ms`,
//! `0`.

use k8s_openapi::jiff::SignedDuration;
use std::time::Duration;

/// Maximum duration. Adding a much longer one to the current time would exceed what the clocks can
/// represent.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// Minimum duration between two attempts of a periodic task, so that the attempts do not overload
/// the API server or a storage backend, and minimum time limit of a webhook.
const SHORTEST: Duration = Duration::from_secs(1);

/// Parses a duration.
///
/// # Errors
/// When the text is not a duration, or the duration is negative or longer than 100 years.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    // Go's notation begins with a digit. jiff also parses texts that do not, such as PT5S and -5s,
    // so they are refused here.
    let begins_well = text.starts_with(|first: char| first.is_ascii_digit());
    let read = text.parse::<SignedDuration>().ok();
    let read = read.filter(|_| begins_well);
    read.and_then(|read| Duration::try_from(read).ok())
        .filter(|read| *read <= LONGEST)
        .ok_or_else(|| {
            "expected a duration of at most 100 years, such as 20s, 5m, 1h30m or 0".to_owned()
        })
}

/// Parses a duration that may also be a number of days, such as `30d`.
///
/// # Errors
/// When the text is neither a duration that [`parse`] accepts nor a whole number of days, or the
/// duration is longer than 100 years.
pub fn parse_days(text: &str) -> Result<Duration, String> {
    let days = text.trim().strip_suffix('d');
    let days = days.and_then(|days| days.parse::<u16>().ok());
    let read = days.map(|days| Duration::from_secs(u64::from(days) * 86_400));
    match read.filter(|read| *read <= LONGEST) {
        Some(read) => Ok(read),
        None => parse(text).map_err(|error| format!("{error}, or days such as 30d")),
    }
}

/// Formats a duration as [`parse`] reads it, such as `72h` or `1h 30m`.
pub fn format(duration: Duration) -> String {
    let shown = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    format!("{shown:#}")
}

/// Parses a duration of at least one second: one between two attempts, or the time limit of a
/// webhook, which Kubernetes gives in whole seconds.
///
/// # Errors
/// When [`parse`] fails, or the duration is shorter than a second.
pub fn parse_at_least_1s(text: &str) -> Result<Duration, String> {
    let read = parse(text)?;
    let long = read >= SHORTEST;
    long.then_some(read)
        .ok_or_else(|| "the duration must be at least 1s".to_owned())
}

/// Parses the duration between two attempts, which is at least one second, or 0, which means that
/// no attempt is made.
///
/// # Errors
/// When [`parse`] fails, or the duration is shorter than a second but not 0.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Ok(Duration::ZERO),
        _ => parse_at_least_1s(text).map_err(|error| format!("{error}, or 0 for never")),
    }
}

/// Parses the duration between two attempts. A plain number counts as seconds, as in older versions
/// of a flag.
///
/// # Errors
/// When [`parse`] fails, or the duration is shorter than a second.
pub fn parse_pause_or_seconds(text: &str) -> Result<Duration, String> {
    match text.trim().parse::<u32>() {
        // The parsed number is formatted again, because a duration may not have as many leading
        // zeros as a number.
        Ok(seconds) if !text.trim().starts_with('+') => parse_at_least_1s(&format!("{seconds}s")),
        _ => parse_at_least_1s(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_may_be_days() {
        assert_eq!(parse_days("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(parse_days("12h"), Ok(Duration::from_secs(12 * 3600)));
        assert_eq!(parse_days("36500d"), Ok(LONGEST));
        for wrong in ["d", "-1d", "1.5d", "30", "month", "36501d", "65535d"] {
            assert!(parse_days(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_formatted_in_large_units() {
        for (seconds, expected) in [
            (0, "0s"),
            (90, "1m 30s"),
            (5400, "1h 30m"),
            (259_200, "72h"),
        ] {
            assert_eq!(format(Duration::from_secs(seconds)), expected);
        }
        assert!(format(Duration::MAX).ends_with('s'));
    }

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
            "", "5", "-5s", "+5s", "s", "5x", "PT5S", "soon", "5s ago", "1h30", "876001h",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_done_again_and_again_is_not_done_without_a_pause() {
        for (text, pause, interval) in [
            ("1s", true, true),
            ("999ms", false, false),
            ("0", false, true),
            ("soon", false, false),
        ] {
            assert_eq!(parse_at_least_1s(text).is_ok(), pause, "{text}");
            assert_eq!(parse_interval(text).is_ok(), interval, "{text}");
        }
        assert_eq!(parse_at_least_1s("1s"), Ok(SHORTEST));
        assert_eq!(parse_interval("0s"), Ok(Duration::ZERO));
    }

    #[test]
    fn a_plain_number_counts_as_seconds() {
        let zeros = format!("{}5", "0".repeat(40));
        for text in ["5", "005", " 5 ", &zeros, "5s"] {
            let five = Duration::from_secs(5);
            assert_eq!(parse_pause_or_seconds(text), Ok(five), "{text}");
        }
        for text in ["+5", "-5", "0", "4294967296", "5 6"] {
            assert!(parse_pause_or_seconds(text).is_err(), "{text}");
        }
    }
}
