//! Expiry: the deletion of claims that no pod has used for a long time.

pub use super::keys::{EXPIRE_UNUSED, EXPIRES_AT};
use super::metadata;
use crate::go_duration;
use k8s_openapi::jiff::Timestamp;
use std::{collections::BTreeMap, time::Duration};

/// Values of [`EXPIRE_UNUSED`] that disable expiry, as any duration of zero does.
const OFF: [&str; 2] = ["off", "0"];

/// Parses the value of [`EXPIRE_UNUSED`]; none if the value disables expiry.
///
/// # Errors
/// When the value is neither a duration nor `off`.
pub fn parse(text: &str) -> Result<Option<Duration>, String> {
    match text.trim() {
        text if OFF.contains(&text) => Ok(None),
        text => match go_duration::parse_days(text) {
            Ok(Duration::ZERO) => Ok(None),
            Ok(age) => Ok(Some(age)),
            Err(error) => Err(format!("{error}, or off")),
        },
    }
}

/// The annotations of a claim about expiry. A value that is longer than
/// [`MAX_TEXT`](super::MAX_TEXT) is read as an empty text, which is neither a duration nor a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimExpiry {
    /// After what time without a pod `pvc-expiry` deletes the claim, from [`EXPIRE_UNUSED`],
    /// unparsed.
    pub age: Option<Box<str>>,
    /// The announced time of that deletion, from [`EXPIRES_AT`], unparsed.
    pub at: Option<Box<str>>,
}

impl ClaimExpiry {
    /// Reads the annotations of a claim; none if it has neither.
    pub(super) fn of(annotations: &BTreeMap<String, String>) -> Option<Box<Self>> {
        let value = |key| metadata::bounded(annotations, key);
        let found = Self {
            age: value(EXPIRE_UNUSED),
            at: value(EXPIRES_AT),
        };
        (found != Self::default()).then(|| Box::new(found))
    }

    /// Returns the announced time of the deletion; none if it is absent or cannot be read.
    pub fn announced(&self) -> Option<Timestamp> {
        self.at.as_deref()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metadata::MAX_TEXT;

    #[test]
    fn an_age_is_a_duration_or_days_and_may_be_off() {
        let days = |days: u64| Ok(Some(Duration::from_secs(days * 86_400)));
        assert_eq!(parse("30d"), days(30));
        assert_eq!(parse(" 720h "), days(30));
        for kept in ["off", "0", "0d", "0s"] {
            assert_eq!(parse(kept), Ok(None), "{kept}");
        }
        for wrong in ["", "soon", "-1d", "30", "1w"] {
            let error = parse(wrong).expect_err(wrong);
            assert!(error.contains("30d") && error.contains("off"), "{error}");
        }
    }

    #[test]
    fn texts_are_bounded_and_a_wrong_time_is_none() {
        let read = |at: &str| {
            let annotations = [(EXPIRES_AT.to_owned(), at.to_owned())];
            ClaimExpiry::of(&annotations.into()).expect("an annotation")
        };
        let time = "2026-01-01T00:00:00Z";
        assert_eq!(read(time).announced(), time.parse().ok());
        assert_eq!(read("soon").announced(), None);
        assert_eq!(read(&"1".repeat(MAX_TEXT + 1)).at.as_deref(), Some(""));
        assert_eq!(ClaimExpiry::of(&BTreeMap::new()), None);
    }
}
