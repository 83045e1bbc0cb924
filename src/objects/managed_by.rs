//! The labels that name the installation that manages a claim or a volume.
//!
//! The keys are those of plumber-cd's two controllers, so that what was labelled for them is understood.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

/// On a claim that was made for a pod.
pub const PROVISIONER_LABEL: &str = "dynamic-pvc-provisioner.kubernetes.io/managed-by";
/// On a claim or volume: the volume is to be free again once its claim is gone.
pub const RELEASER_LABEL: &str = "reclaimable-pv-releaser.kubernetes.io/managed-by";
/// What the original really wrote and read instead, against its own documentation.
pub const LEGACY_LABEL: &str = "reclaimable-pv-releaser/managed-by";

/// The longest value of a label.
const LIMIT: usize = 63;

/// The values of these labels on one object, which has at least one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedBy {
    /// [`PROVISIONER_LABEL`]
    pub provisioner: Option<Box<str>>,
    /// [`RELEASER_LABEL`]
    pub releaser: Option<Box<str>>,
    /// [`LEGACY_LABEL`]
    pub legacy: Option<Box<str>>,
}

/// Which installation manages an object, by its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// We, by every label there is.
    Own,
    /// Another installation, by at least one label. An empty value names none, and so not this one.
    Foreign,
    /// There is no such label.
    Unlabeled,
}

impl ManagedBy {
    /// The labels of this kind, if there are any.
    pub fn of(labels: &BTreeMap<String, String>) -> Option<Box<Self>> {
        let value = |key| labels.get(key).map(|value| value.as_str().into());
        let found = Self {
            provisioner: value(PROVISIONER_LABEL),
            releaser: value(RELEASER_LABEL),
            legacy: value(LEGACY_LABEL),
        };
        (found != Self::default()).then(|| Box::new(found))
    }

    /// Which installation the claim belongs to. The legacy key counts if `legacy`.
    pub fn whose_claim(&self, id: &ControllerId, legacy: bool) -> Ownership {
        let provisioner = self.provisioner.as_deref();
        id.among(provisioner.into_iter().chain(self.on_volume(legacy)))
    }

    /// Which installation the volume belongs to. The provisioner's label does not count; the legacy key does if `legacy`.
    pub fn whose_volume(&self, id: &ControllerId, legacy: bool) -> Ownership {
        id.among(self.on_volume(legacy))
    }

    fn on_volume(&self, legacy: bool) -> impl Iterator<Item = &str> {
        let legacy = self.legacy.as_deref().filter(|_| legacy);
        self.releaser.as_deref().into_iter().chain(legacy)
    }
}

/// The name of this installation among others in the cluster: the value of the labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerId(Arc<str>);

impl ControllerId {
    /// As in the labels.
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
    /// As in the original's charts, so that the two components pair by default.
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
                "it is written as the value of a label, so it has 1 to {LIMIT} letters, digits, '-', '_' or '.', and a letter or digit \
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

    /// As a claim with the legacy key, as one without, as a volume with the legacy key, as one without.
    fn whose(pairs: &[(&str, &str)]) -> [Ownership; 4] {
        let (found, me) = (ManagedBy::of(&labels(pairs)).unwrap_or_default(), id("me"));
        [
            found.whose_claim(&me, true),
            found.whose_claim(&me, false),
            found.whose_volume(&me, true),
            found.whose_volume(&me, false),
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
            assert_eq!(whose(&pairs), expected, "{pairs:?}");
        }
    }

    #[test]
    fn other_labels_are_none() {
        assert_eq!(ManagedBy::of(&labels(&[("app", "me")])), None);
    }

    /// DP-32
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
