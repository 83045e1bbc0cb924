//! A duration is either refused or parsed as Go parses it. Go's notation of every duration is
//! accepted.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::time::Duration;
use volume_warden::go_duration::{
    parse, parse_at_least_1s, parse_interval, parse_pause_or_seconds,
};

const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
const SECOND: Duration = Duration::from_secs(1);
/// The units of Go, in nanoseconds. The first one that matches is used.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

fuzz_target!(|text: &str| {
    let read = parse(text).ok();
    if let Some(read) = read {
        assert!(read <= LONGEST, "{text:?} is {read:?}");
        if let Some(go) = go(text.trim()) {
            assert!(go.abs_diff(read) <= Duration::from_nanos(1), "{go:?}");
        }
        assert_eq!(parse(&notation(read)), Ok(read));
    }
    let pause = read.filter(|read| *read >= SECOND);
    let never = read.filter(Duration::is_zero);
    assert_eq!(parse_at_least_1s(text).ok(), pause);
    assert_eq!(parse_interval(text).ok(), pause.or(never));
    let seconds = text.trim().parse::<u32>().ok();
    let seconds = seconds.filter(|_| !text.trim().starts_with('+'));
    let seconds = seconds.map(|seconds| Duration::from_secs(seconds.into()));
    let seconds = seconds.filter(|seconds| (SECOND..=LONGEST).contains(seconds));
    assert_eq!(parse_pause_or_seconds(text).ok(), pause.or(seconds));
});

/// Reads numbers with units as Go's `ParseDuration` does. None for what Go refuses, and for numbers
/// that do not fit.
fn go(mut text: &str) -> Option<Duration> {
    let mut total: u128 = 0;
    while !text.is_empty() {
        let (whole, rest) = digits(text);
        let (part, rest) = rest.strip_prefix('.').map_or(("", rest), digits);
        let (unit, size) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit))?;
        if whole.is_empty() && part.is_empty() || part.len() > 9 {
            return None;
        }
        let whole: u128 = format!("0{whole}").parse().ok()?;
        let part: u128 = format!("0{part:0<9}").parse().ok()?;
        let nanoseconds = whole.checked_mul(*size)? + part * size / 1_000_000_000;
        total = total.checked_add(nanoseconds)?;
        text = &rest[unit.len()..];
    }
    Some(Duration::from_nanos(total.try_into().ok()?))
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| !letter.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// The notation of Go's `Duration.String` for at least a second.
fn notation(duration: Duration) -> String {
    let (seconds, nanoseconds) = (duration.as_secs(), duration.subsec_nanos());
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hours}h{minutes}m{seconds}.{nanoseconds:09}s")
}
