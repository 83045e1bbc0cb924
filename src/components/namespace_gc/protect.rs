//! Patterns for the names of namespaces that are never deleted from the storage backend.

use std::{fmt, str::FromStr};

/// A name pattern in which `*` matches any number of characters, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Box<str>);

impl Glob {
    /// Whether the pattern matches the whole name.
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        // Splitting a text yields at least one part, so this cannot fail.
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else {
            return false;
        };
        let mut parts: Vec<_> = parts.collect();
        let Some(last) = parts.pop() else {
            return rest.is_empty();
        };
        for part in parts {
            let Some(at) = rest.find(part) else {
                return false;
            };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

impl FromStr for Glob {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'*')
        };
        if text.is_empty() || !text.bytes().all(known) {
            return Err(
                "expected the name of a namespace, in which * matches any characters".into(),
            );
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_characters() {
        for (glob, name, expected) in [
            ("default", "default", true),
            ("default", "default-2", false),
            ("default", "my-default", false),
            ("kube-*", "kube-system", true),
            ("kube-*", "kube-", true),
            ("kube-*", "kube", false),
            ("kube-*", "my-kube-system", false),
            ("*-prod", "shop-prod", true),
            ("*-prod", "shop-prod-2", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("ab*ba", "aba", false),
            ("*", "anything", true),
            ("**", "", true),
        ] {
            let parsed: Glob = glob.parse().expect("a glob");
            assert_eq!(parsed.matches(name), expected, "{glob} {name}");
        }
    }

    #[test]
    fn invalid_names_are_refused() {
        for text in ["", "Kube-*", "a b", "kube-?", "[a-z]"] {
            assert!(text.parse::<Glob>().is_err(), "{text}");
        }
    }
}
