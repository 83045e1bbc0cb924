//! The labels that name the installation that manages a claim or a volume.
//!
//! The label keys are those of plumber-cd's two controllers, so that objects labelled for these
//! controllers are recognized.

pub use super::keys::{LEGACY_LABEL, PROVISIONER_LABEL, RELEASER_LABEL};
use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

/// Maximum length of a label value.
const LIMIT: usize = 63;

/// The values of the managed-by labels on one object, which has at least one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedBy {
    /// The installation that created the claim, from [`PROVISIONER_LABEL`].
    pub provisioner: Option<Box<str>>,
    /// The installation that releases the volume, from [`RELEASER_LABEL`].
    pub releaser: Option<Box<str>>,
    /// The installation that releases the volume, from [`LEGACY_LABEL`], which counts only with
    /// `--legacy-label`.
    pub legacy: Option<Box<str>>,
}

/// Whether this installation manages an object, by those of its managed-by labels that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// At least one label counts, and all of them name this installation.
    Own,
    /// At least one label that counts does not name this installation; an empty value names none.
    Foreign,
    /// The object has no managed-by label that counts.
    Unlabeled,
}

impl ManagedBy {
    /// Returns the managed-by labels among `labels`, if there are any.
    pub fn of(labels: &BTreeMap<String, String>) -> Option<Box<Self>> {
        let value = |key| labels.get(key).map(|value| value.as_str().into());
        let found = Self {
            provisioner: value(PROVISIONER_LABEL),
            releaser: value(RELEASER_LABEL),
            legacy: value(LEGACY_LABEL),
        };
        (found != Self::default()).then(|| Box::new(found))
    }

    /// Returns whether the installation `id` manages the claim. The legacy label counts if `legacy`
    /// is true.
    pub fn claim_ownership(&self, id: &ControllerId, legacy: bool) -> Ownership {
        let provisioner = self.provisioner.as_deref();
        id.among(provisioner.into_iter().chain(self.on_volume(legacy)))
    }

    /// Returns whether the installation `id` manages the volume. The provisioner's label does not
    /// count; the legacy label counts if `legacy` is true.
    pub fn volume_ownership(&self, id: &ControllerId, legacy: bool) -> Ownership {
        id.among(self.on_volume(legacy))
    }

    fn on_volume(&self, legacy: bool) -> impl Iterator<Item = &str> {
        let legacy = self.legacy.as_deref().filter(|_| legacy);
        self.releaser.as_deref().into_iter().chain(legacy)
    }
}

/// The name of this installation in the cluster: the value of the managed-by labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerId(Arc<str>);

impl ControllerId {
    /// Returns the id as it is written in the labels.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn among<'a>(&self, mut values: impl Iterator<Item = &'a str>) -> Ownership {
        match values.next() {
            None => Ownership::Unlabeled,
            Some(first) if first == &*self.0 && values.all(|value| value == &*self.0) => {
                Ownership::Own
            }
            Some(_) => Ownership::Foreign,
        }
    }
}

impl Default for ControllerId {
    /// Returns the id in the charts of plumber-cd's controllers, so that claims and volumes that
    /// those controllers labelled count as own ones.
    fn default() -> Self {
        Self("dynamic-reclaimable-pvc-controllers".into())
    }
}

impl fmt::Display for ControllerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ControllerId {
    type Err = String;

    fn from_str(id: &str) -> Result<Self, String> {
        let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let ends = [id.bytes().next(), id.bytes().next_back()];
        let ends_well = |end: &Option<u8>| end.is_some_and(|byte| byte.is_ascii_alphanumeric());
        let valid = id.len() <= LIMIT && ends.iter().all(ends_well) && id.bytes().all(inside);
        valid.then(|| Self(id.into())).ok_or_else(|| {
            format!(
                "the id is written as the value of a label, so it must have 1 to {LIMIT} letters, digits, '-', '_' or '.', and a letter or digit \
                 at both ends"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: &str) -> ControllerId {
        id.parse().expect("an id")
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pair = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
        pairs.iter().map(pair).collect()
    }

    /// Returns the ownership of a claim with and without the legacy label, and of a volume with and
    /// without it.
    fn ownerships(pairs: &[(&str, &str)]) -> [Ownership; 4] {
        let (found, me) = (ManagedBy::of(&labels(pairs)).unwrap_or_default(), id("me"));
        [
            found.claim_ownership(&me, true),
            found.claim_ownership(&me, false),
            found.volume_ownership(&me, true),
            found.volume_ownership(&me, false),
        ]
    }

    #[test]
    fn every_label_that_is_there_has_to_agree() {
        use Ownership::{Foreign, Own, Unlabeled};
        for (pairs, expected) in [
            (vec![], [Unlabeled; 4]),
            (
                vec![(PROVISIONER_LABEL, "me")],
                [Own, Own, Unlabeled, Unlabeled],
            ),
            (
                vec![(PROVISIONER_LABEL, "you")],
                [Foreign, Foreign, Unlabeled, Unlabeled],
            ),
            (vec![(RELEASER_LABEL, "me")], [Own; 4]),
            (vec![(RELEASER_LABEL, "")], [Foreign; 4]),
            (
                vec![(RELEASER_LABEL, "me"), (PROVISIONER_LABEL, "me")],
                [Own; 4],
            ),
            (
                vec![(RELEASER_LABEL, "me"), (PROVISIONER_LABEL, "you")],
                [Foreign, Foreign, Own, Own],
            ),
            (
                vec![(RELEASER_LABEL, "you"), (PROVISIONER_LABEL, "me")],
                [Foreign; 4],
            ),
            (vec![(LEGACY_LABEL, "me")], [Own, Unlabeled, Own, Unlabeled]),
            (
                vec![(LEGACY_LABEL, "you"), (RELEASER_LABEL, "me")],
                [Foreign, Own, Foreign, Own],
            ),
        ] {
            assert_eq!(ownerships(&pairs), expected, "{pairs:?}");
        }
    }

    #[test]
    fn other_labels_are_none() {
        assert_eq!(ManagedBy::of(&labels(&[("app", "me")])), None);
    }

    /// DP-32: a controller id is a label value that is not empty.
    #[test]
    fn an_id_is_a_label_value_that_is_not_empty() {
        let longest = "a".repeat(LIMIT);
        for valid in ["a", "A1", "a-b_c.d", longest.as_str()] {
            assert_eq!(id(valid).to_string(), valid);
        }
        let too_long = "a".repeat(LIMIT + 1);
        for invalid in ["", "-a", "a-", "a b", "a/b", "ä", "_", too_long.as_str()] {
            assert!(invalid.parse::<ControllerId>().is_err(), "{invalid}");
        }
        assert_eq!(
            id(ControllerId::default().as_str()),
            ControllerId::default()
        );
    }
}
