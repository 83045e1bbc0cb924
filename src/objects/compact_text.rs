//! Texts that the API server or a provisioner generates, in few bytes.

use serde::{Serialize, Serializer};
use std::fmt;

/// Prefix of the name of a provisioned volume, before the uid of its claim.
const VOLUME: &str = "pvc-";
/// Length of the text of a UUID.
const UUID_LENGTH: usize = 36;
/// Where the text of a UUID has dashes.
const DASHES: [usize; 4] = [8, 13, 18, 23];

/// A text that the API server or a provisioner usually generates: a `metadata.uid`, a
/// `resourceVersion`, or the name of a volume. Any other text is kept, too, as it is.
///
/// A UUID, a UUID after `pvc-` and a decimal number need no memory beside the 24 bytes of the
/// value. Without that, such texts would be most of the memory that a cached claim uses.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CompactText(Form);

/// A text has one form only, so that equal texts have equal forms.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    Uuid([u8; 16]),
    Volume([u8; 16]),
    Number(u64),
    Text(Box<str>),
}

impl CompactText {
    /// Returns whether the text is empty.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Text(text) if text.is_empty())
    }
}

impl Default for CompactText {
    fn default() -> Self {
        Self(Form::Text(Box::default()))
    }
}

impl<T: AsRef<str>> From<T> for CompactText {
    fn from(text: T) -> Self {
        let text = text.as_ref();
        Self(packed(text).unwrap_or_else(|| Form::Text(text.into())))
    }
}

impl From<&Self> for CompactText {
    fn from(text: &Self) -> Self {
        text.clone()
    }
}

impl<T: AsRef<str> + ?Sized> PartialEq<T> for CompactText {
    fn eq(&self, other: &T) -> bool {
        let other = other.as_ref();
        match &self.0 {
            Form::Text(text) => **text == *other,
            form => packed(other).as_ref() == Some(form),
        }
    }
}

impl fmt::Display for CompactText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Uuid(bytes) => write_uuid(bytes, f),
            Form::Volume(bytes) => {
                f.write_str(VOLUME)?;
                write_uuid(bytes, f)
            }
            Form::Number(number) => write!(f, "{number}"),
            Form::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for CompactText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl Serialize for CompactText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn packed(text: &str) -> Option<Form> {
    match text.strip_prefix(VOLUME) {
        Some(rest) => uuid(rest).map(Form::Volume),
        None if text.len() == UUID_LENGTH => uuid(text).map(Form::Uuid),
        None => number(text).map(Form::Number),
    }
}

/// Parses a UUID as it is written: with dashes and digits in lower case.
fn uuid(text: &str) -> Option<[u8; 16]> {
    if text.len() != UUID_LENGTH {
        return None;
    }
    let (mut bytes, mut digits) = ([0; 16], 0);
    for (place, character) in text.bytes().enumerate() {
        let digit = match (DASHES.contains(&place), character) {
            (true, b'-') => continue,
            (false, b'0'..=b'9') => character - b'0',
            (false, b'a'..=b'f') => character - b'a' + 10,
            _ => return None,
        };
        bytes[digits / 2] = bytes[digits / 2] << 4 | digit;
        digits += 1;
    }
    Some(bytes)
}

fn write_uuid(bytes: &[u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, byte) in bytes.iter().enumerate() {
        let dash = if [4, 6, 8, 10].contains(&index) {
            "-"
        } else {
            ""
        };
        write!(f, "{dash}{byte:02x}")?;
    }
    Ok(())
}

/// Parses a number as it is written: in decimal digits, without a sign or leading zeros.
fn number(text: &str) -> Option<u64> {
    let canonical = text == "0" || text.starts_with(|first| matches!(first, '1'..='9'));
    canonical.then(|| text.parse().ok())?
}

#[cfg(test)]
#[path = "compact_text_tests.rs"]
mod tests;
