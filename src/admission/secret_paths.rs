//! Authenticates reviews by the path of the request: the API server is the only client that knows
//! the path `/<secret>/<hook>`.
//!
//! Client certificates for webhooks would need flags of the API server that managed clusters do not
//! offer. The path is published in the webhook configurations, which no default role except
//! `cluster-admin` lets users read.

use crate::cluster::PATH_SECRET_DIGITS;
use arc_swap::ArcSwap;
use rustls::crypto::ring;
use std::{fmt, sync::Arc};

/// Number of hex digits of a secret, which are 256 bits.
const LENGTH: usize = PATH_SECRET_DIGITS;

/// The secret that is the first segment of a published path. `Debug` does not show it, and no log
/// line contains it.
#[derive(Clone)]
pub struct PathSecret(Box<str>);

impl PathSecret {
    /// Creates a new random secret.
    ///
    /// # Errors
    /// When the operating system has no random numbers.
    pub fn generate() -> anyhow::Result<Self> {
        let mut bytes = [0; LENGTH / 2];
        let random = ring::default_provider().secure_random;
        let filled = random.fill(&mut bytes);
        filled.map_err(|_| anyhow::anyhow!("the operating system has no random numbers"))?;
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self(digits.into()))
    }

    /// Parses a secret of 64 lower-case hex digits, which are a valid DNS-1123 subdomain: the API
    /// server requires that of each segment of a webhook's path.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (text.len() == LENGTH && text.bytes().all(is_digit)).then(|| Self(text.into()))
    }

    /// Splits a published path into its secret and its hook (`/pvc-protection/claims`).
    pub fn split(path: &str) -> Option<(Self, &str)> {
        let (secret, hook) = segments(path)?;
        Some((Self::parse(secret)?, hook))
    }

    /// Returns the path to publish for a hook: the secret, followed by the hook.
    pub fn path(&self, hook: &str) -> String {
        format!("/{}{hook}", self.0)
    }

    /// Returns the secret as text, for the Kubernetes Secret that stores it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Compares a guess with the secret in constant time, so that the time does not reveal a
    /// matching prefix.
    fn matches(&self, guess: &str) -> bool {
        let pairs = self.0.bytes().zip(guess.bytes());
        let difference = pairs.fold(0, |all, (secret, given)| all | (secret ^ given));
        guess.len() == LENGTH && difference == 0
    }
}

impl PartialEq for PathSecret {
    fn eq(&self, other: &Self) -> bool {
        self.matches(&other.0)
    }
}

impl Eq for PathSecret {}

impl fmt::Debug for PathSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PathSecret(…)")
    }
}

/// The secret paths that are accepted at present: none before [`Self::accept`]. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct SecretPaths(Arc<ArcSwap<Accepted>>);

#[derive(Debug, Default)]
struct Accepted {
    secrets: Vec<PathSecret>,
    unprefixed: bool,
}

impl SecretPaths {
    /// Replaces the accepted secrets. With `unprefixed`, paths without a secret are accepted, too,
    /// as version 0.1.0 has them.
    pub fn accept(&self, secrets: Vec<PathSecret>, unprefixed: bool) {
        let accepted = Accepted {
            secrets,
            unprefixed,
        };
        self.0.store(Arc::new(accepted));
    }

    /// Returns the hook (`/pvc-protection/claims`) that a request path addresses, if the path
    /// begins with an accepted secret, or if paths without a secret are accepted. It does not
    /// check that a webhook exists at the returned path.
    pub fn authenticate<'a>(&self, path: &'a str) -> Option<&'a str> {
        let accepted = self.0.load();
        if let Some((guess, hook)) = segments(path) {
            let matching = accepted.secrets.iter().map(|secret| secret.matches(guess));
            if matching.fold(false, |any, matches| any | matches) {
                return Some(hook);
            }
        }
        accepted.unprefixed.then_some(path)
    }
}

/// Splits a path after its first segment, if that is as long as a secret; the rest starts with a
/// slash.
fn segments(path: &str) -> Option<(&str, &str)> {
    let (first, rest) = path.strip_prefix('/')?.split_at_checked(LENGTH)?;
    rest.starts_with('/').then_some((first, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> PathSecret {
        PathSecret::generate().expect("random numbers")
    }

    #[test]
    fn only_accepted_secrets_authenticate() {
        let (old, new, other) = (secret(), secret(), secret());
        let paths = SecretPaths::default();
        assert_eq!(paths.authenticate(&old.path("/a/b")), None);
        paths.accept(vec![old.clone(), new.clone()], false);
        for accepted in [&old, &new] {
            assert_eq!(paths.authenticate(&accepted.path("/a/b")), Some("/a/b"));
        }
        assert_eq!(paths.authenticate(&other.path("/a/b")), None);
        let (whole, digits) = (new.path("/a/b"), new.expose());
        for path in [
            "",
            "/",
            "/a/b",
            "//a/b",
            &whole[..LENGTH],
            &whole[..=LENGTH],
            &whole[1..],
            &whole.to_uppercase(),
            &format!("/{digits}0/a/b"),
            &format!("/{}é/a/b", &digits[2..]),
            &format!("/a{whole}"),
        ] {
            assert_eq!(paths.authenticate(path), None, "{path}");
        }
        paths.accept(vec![new], false);
        assert_eq!(paths.authenticate(&old.path("/a/b")), None);
    }

    #[test]
    fn unprefixed_paths_only_while_they_are_accepted() {
        let paths = SecretPaths::default();
        paths.accept(Vec::new(), true);
        assert_eq!(paths.authenticate("/a/b"), Some("/a/b"));
        paths.accept(Vec::new(), false);
        assert_eq!(paths.authenticate("/a/b"), None);
    }

    #[test]
    fn a_secret_is_read_as_written_and_never_shown() {
        let secret = secret();
        assert_eq!(PathSecret::parse(secret.expose()), Some(secret.clone()));
        let path = secret.path("/a/b");
        assert_eq!(PathSecret::split(&path), Some((secret.clone(), "/a/b")));
        assert!(!format!("{secret:?}").contains(&secret.expose()[..4]));
        for text in [
            "",
            "0",
            &secret.expose().to_uppercase(),
            &"g".repeat(LENGTH),
        ] {
            assert_eq!(PathSecret::parse(text), None, "{text}");
        }
    }
}
