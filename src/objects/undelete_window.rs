//! Undelete windows: for how long the data of a deleted claim can be restored.

pub use super::keys::{UNDELETE_WINDOW, UNDELETE_WINDOW_MAX};
use crate::go_duration;
use std::time::Duration;

/// The value of [`UNDELETE_WINDOW`] that disables the trash for a StorageClass. That of a namespace
/// requests nothing with it.
const OFF: &str = "off";

/// The undelete window that a StorageClass requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The window of claims for which neither the namespace nor the claim requests another one.
    /// With zero, the trash is enabled for no further volume, and windows that are recorded on
    /// volumes stay.
    For(Duration),
    /// The trash is disabled for the class, also for Bound volumes that it was enabled for, unless
    /// their claim is being deleted. It does not affect volumes that are in the trash.
    Off,
}

/// The undelete window that a namespace requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceWindow {
    /// The namespace has not been read, or its annotation cannot be read. Windows that are recorded
    /// on volumes stay unchanged.
    Unknown,
    /// The namespace requests nothing.
    Unset,
    /// The namespace requests this window, which has an effect only if it is longer than that of
    /// the class; see [`Self::lengthen`].
    For(Duration),
}

impl Window {
    /// Parses the value of [`UNDELETE_WINDOW`] of a StorageClass.
    ///
    /// # Errors
    /// When the value is neither a duration nor `off`.
    pub fn of_class(text: &str) -> Result<Self, String> {
        match text.trim() {
            OFF => Ok(Self::Off),
            text => go_duration::parse(text).map(Self::For),
        }
    }
}

impl NamespaceWindow {
    /// Parses the value of [`UNDELETE_WINDOW`] of a namespace that has been read.
    pub fn of(text: Option<&str>) -> Self {
        match text.map(str::trim) {
            None | Some(OFF) => Self::Unset,
            Some(text) => go_duration::parse(text).map_or(Self::Unknown, Self::For),
        }
    }

    /// Returns the window of those claims of this namespace that have no annotation of their own. A
    /// namespace can only lengthen the window of the class, up to `longest`; without `longest`, it
    /// lengthens nothing. It cannot enable a class whose window is zero.
    pub fn lengthen(self, class: Duration, longest: Option<Duration>) -> Duration {
        match (self, longest) {
            (Self::For(own), Some(longest)) if !class.is_zero() => own.min(longest).max(class),
            _ => class,
        }
    }
}

/// Returns the undelete window of a claim. Its annotation can only shorten `default`, the window of
/// claims without one. An unreadable value is ignored, which keeps the data for longer.
pub fn claim_window(default: Duration, claim: Option<&str>) -> Duration {
    let own = claim.and_then(|text| go_duration::parse(text).ok());
    own.map_or(default, |own| own.min(default))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_claim_can_only_shorten_the_window() {
        for (claim, expected) in [
            (None, 3600),
            (Some("10m"), 600),
            (Some("0"), 0),
            (Some("72h"), 3600),
            (Some("soon"), 3600),
        ] {
            let window = claim_window(HOUR, claim);
            assert_eq!(window.as_secs(), expected, "{claim:?}");
        }
        assert_eq!(Window::of_class("off"), Ok(Window::Off));
        assert_eq!(Window::of_class("1h"), Ok(Window::For(HOUR)));
        assert!(Window::of_class("soon").is_err());
    }

    #[test]
    fn a_namespace_can_only_lengthen_the_window_and_up_to_a_maximum() {
        let lengthened = |text, longest: Option<u32>| {
            let longest = longest.map(|hours| HOUR * hours);
            NamespaceWindow::of(text).lengthen(HOUR, longest).as_secs() / 3600
        };
        for (text, longest, expected) in [
            (Some("3h"), Some(5), 3),
            (Some("9h"), Some(5), 5),
            (Some("3h"), None, 1),
            (Some("30m"), Some(5), 1),
            (Some("0"), Some(5), 1),
            (Some("off"), Some(5), 1),
            (Some("30d"), Some(5), 1),
            (None, Some(5), 1),
            (Some("3h"), Some(0), 1),
        ] {
            assert_eq!(lengthened(text, longest), expected, "{text:?} {longest:?}");
        }
        assert_eq!(NamespaceWindow::of(Some(" off ")), NamespaceWindow::Unset);
        let none = NamespaceWindow::For(HOUR).lengthen(Duration::ZERO, Some(HOUR));
        assert_eq!(none, Duration::ZERO);
    }
}
