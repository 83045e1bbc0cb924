//! Text from the cluster, made safe to show: in a terminal, a line of the log, a warning, or an
//! Event.

use serde::Serialize;
use serde_json::Value;
use std::fmt::{self, Display, Write as _};

/// Displays a value with its control characters and direction marks escaped, as in `\u{1b}`.
/// Messages of Events and conditions, names in templates and errors quote what users wrote: they
/// must not clear the screen, change what the terminal shows elsewhere, or add a line that seems to
/// be from Volume Warden.
pub struct Plain<T>(pub T);

impl<T: Display> Display for Plain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

/// Returns text from the cluster with its control characters escaped. Text with more than `limit`
/// characters is cut there and ends with `…`.
pub fn bounded(text: &str, limit: usize) -> String {
    // Escaping never shortens text, so no more characters than these can be shown.
    let start: String = text.chars().take(limit + 1).collect();
    let plain = Plain(start).to_string();
    match plain.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &plain[..end]),
        None => plain,
    }
}

/// Returns the value as one line of JSON in which the characters that [`Plain`] escapes are escaped
/// as in `\u001b`. JSON itself requires this only of some of them.
///
/// # Errors
/// When the value cannot be represented as JSON.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(escaped_json(&serde_json::to_string(value)?))
}

/// Returns the value as indented JSON, escaped as by [`json`].
pub fn indented_json(value: &Value) -> String {
    escaped_json(&format!("{value:#}"))
}

/// Returns the value as a YAML document in which the characters that [`Plain`] escapes are escaped.
/// The YAML serializer does not escape direction marks: a document with them is one line of JSON,
/// which is YAML, too.
///
/// # Errors
/// When the value cannot be represented as YAML.
pub fn yaml(value: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_saphyr::to_string(value)?;
    if text.chars().any(is_harmful_in_lines) {
        Ok(json(value)?)
    } else {
        Ok(text)
    }
}

/// Escapes the characters of JSON that [`Plain`] escapes, except line breaks between values.
fn escaped_json(text: &str) -> String {
    text.chars().fold(String::new(), |mut escaped, each| {
        if is_harmful_in_lines(each) {
            // Such a character is in a string, and has at most four hexadecimal digits.
            escaped.push_str(&format!("\\u{:04x}", u32::from(each)))
        } else {
            escaped.push(each)
        }
        escaped
    })
}

/// Returns what [`is_harmful`] does, for a text whose line breaks belong to its format.
fn is_harmful_in_lines(character: char) -> bool {
    character != '\n' && is_harmful(character)
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|each| {
            if is_harmful(each) {
                write!(self.0, "{}", each.escape_default())
            } else {
                self.0.write_char(each)
            }
        })
    }
}

/// Returns whether the character is a control character, a line or paragraph separator, a mark that
/// changes the direction of text, or the byte order mark.
fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{061c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_escaped_and_has_the_same_value() {
        let text = "a\u{1b}\u{7f}\u{9b}31m\u{202e}\u{feff}\n größe 漢 \"\\u009b";
        let shown = json(&[text]).expect("JSON");
        assert!(!shown.chars().any(is_harmful), "{shown:?}");
        assert!(shown.contains("\\u009b31m\\u202e\\ufeff"), "{shown}");
        assert!(shown.contains("größe 漢"), "{shown}");
        let read: [String; 1] = serde_json::from_str(&shown).expect("JSON");
        assert_eq!(read, [text]);
    }

    #[test]
    fn indented_json_keeps_its_lines() {
        let value = serde_json::json!({"a": ["b\u{202e}\nc"]});
        let shown = indented_json(&value);
        assert_eq!(shown, "{\n  \"a\": [\n    \"b\\u202e\\nc\"\n  ]\n}");
    }

    #[test]
    fn yaml_is_escaped_and_has_the_same_value() {
        for text in [
            "plain",
            "größe 漢: \"a\"",
            "two\nlines\n",
            "a\u{1b}b",
            "a\u{9b}b",
        ] {
            let harmful = [
                '\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}', '\u{feff}', '\u{2028}',
            ];
            let marked = harmful.map(|mark| format!("{text}{mark}"));
            for text in marked.iter().map(String::as_str).chain([text]) {
                let shown = yaml(&std::collections::BTreeMap::from([("key", text)]));
                let shown = shown.expect("YAML");
                assert!(!shown.chars().any(is_harmful_in_lines), "{shown:?}");
                let read: std::collections::BTreeMap<String, String> =
                    serde_saphyr::from_str(&shown).expect("YAML");
                assert_eq!(read["key"], text, "{shown:?}");
            }
        }
        assert_eq!(yaml(&["a"]).expect("YAML").trim_end(), "- a");
    }

    #[test]
    fn only_harmful_characters_are_escaped() {
        for (text, shown) in [
            (
                "pod \"web-0\": größe 漢 100 %",
                "pod \"web-0\": größe 漢 100 %",
            ),
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            (
                "a\r\nNext, to mend it:\n  rm -rf /",
                "a\\r\\nNext, to mend it:\\n  rm -rf /",
            ),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\u{202e}b\u{2066}c", "a\\u{202e}b\\u{2066}c"),
        ] {
            assert_eq!(Plain(text).to_string(), shown);
        }
    }
}
