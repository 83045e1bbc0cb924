//! Rebinding: whether a claim that is created again gets its volume back from the trash.

pub use super::keys::REBIND;

/// The value of [`REBIND`] that gives a claim the volume of the deleted claim of its name.
const SAME_NAME: &str = "same-name";
/// The value of [`REBIND`] that gives a claim a new volume.
const OFF: &str = "off";

/// Parses the value of [`REBIND`] of a StorageClass or claim: whether new claims get the volume of
/// the deleted claim of their name.
///
/// # Errors
/// When the value is neither `same-name` nor `off`.
pub fn parse(text: &str) -> Result<bool, String> {
    match text.trim() {
        SAME_NAME => Ok(true),
        OFF => Ok(false),
        _ => Err(format!("expected {SAME_NAME} or {OFF}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_values_can_be_read() {
        assert_eq!(parse("same-name"), Ok(true));
        assert_eq!(parse(" off "), Ok(false));
        for text in ["", "true", "Same-Name", "0"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
