//! Bounds text that other systems send, for log lines and messages.

use std::fmt;

/// One short line of text for log lines and users, created from text of any size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sentence(String);

impl Sentence {
    /// Maximum length of the line in characters.
    pub const LIMIT: usize = 200;

    /// Converts the text to one line, and shortens it to at most [`Self::LIMIT`] characters.
    pub fn new(text: impl AsRef<str>) -> Self {
        // A backend may answer with megabytes, so only the beginning of the text is processed.
        let flat = text.as_ref().chars().take(Self::LIMIT * 4).map(printable);
        let flat: String = flat.collect();
        let line = flat.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.chars().count() <= Self::LIMIT {
            return Self(line);
        }
        Self(line.chars().take(Self::LIMIT - 1).chain(['…']).collect())
    }

    /// Returns the bounded line of text.
    #[cfg(feature = "simulation")]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn printable(character: char) -> char {
    if character.is_control() {
        ' '
    } else {
        character
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_line_without_control_characters() {
        let sentence = Sentence::new("  no\r\n\tway\u{1b}[31m out\0 ");
        assert_eq!(sentence.as_str(), "no way [31m out");
    }

    #[test]
    fn it_is_bounded_in_characters() {
        let whole = "ü".repeat(Sentence::LIMIT);
        assert_eq!(Sentence::new(&whole).as_str(), whole);
        let cut = Sentence::new(whole + "x");
        assert_eq!(cut.as_str().chars().count(), Sentence::LIMIT);
        assert!(cut.as_str().ends_with("ü…"));
        assert_eq!(Sentence::new(" ".repeat(1 << 20)).as_str(), "");
    }
}
