//! The object that a command is about, as `kubectl` names it: `pvc NAME` or `pvc/NAME`.

use clap::{ValueEnum, error::ErrorKind};

/// The kind of the object, with its name if both were given as one argument.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Target<K> {
    pub(in crate::cli) kind: K,
    name: Option<String>,
}

impl<K: ValueEnum> Target<K> {
    /// Parses `KIND` or `KIND/NAME`.
    ///
    /// # Errors
    /// When the kind is none of `K`.
    pub(in crate::cli) fn parse(text: &str) -> Result<Self, String> {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => (kind, Some(name.to_owned())),
            None => (text, None),
        };
        // kubectl prints the API group behind the kind: statefulset.apps/web
        let kind = kind.split_once('.').map_or(kind, |(kind, _)| kind);
        match K::from_str(kind, true) {
            Ok(kind) => Ok(Self { kind, name }),
            Err(_) => Err(format!("{kind} is none of: {}", names::<K>())),
        }
    }

    /// Returns the name of the object, which follows the kind or a slash.
    ///
    /// # Errors
    /// When there is no name, or two.
    pub(in crate::cli) fn name<'a>(
        &'a self,
        separate: Option<&'a str>,
        command: &str,
    ) -> Result<&'a str, clap::Error> {
        match (self.name.as_deref(), separate) {
            (Some(name), None) | (None, Some(name)) if !name.is_empty() => Ok(name),
            _ => {
                let message = format!(
                    "exactly one name is required: {command} pvc NAME, or {command} pvc/NAME"
                );
                Err(clap::Error::raw(ErrorKind::WrongNumberOfValues, message))
            }
        }
    }
}

fn names<K: ValueEnum>() -> String {
    let values = K::value_variants().iter();
    let values = values.filter_map(ValueEnum::to_possible_value);
    let names: Vec<_> = values.map(|value| value.get_name().to_owned()).collect();
    names.join(", ")
}

/// Returns the namespace that was given, or else the default.
pub(in crate::cli) fn namespace<'a>(given: &'a str, default: &'a str) -> &'a str {
    if given.is_empty() { default } else { given }
}

/// The kinds by which a command can select a volume in the trash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum TrashKind {
    /// A PersistentVolumeClaim that was deleted.
    #[value(aliases = ["persistentvolumeclaim", "persistentvolumeclaims"])]
    Pvc,
    /// A PersistentVolume in the trash.
    #[value(aliases = ["persistentvolume", "persistentvolumes"])]
    Pv,
}

/// The only kind whose deletion can be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ClaimKind {
    /// A PersistentVolumeClaim that was deleted.
    #[value(aliases = ["persistentvolumeclaim", "persistentvolumeclaims"])]
    Pvc,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_exactly_one_name() {
        let read = |text: &str, separate| {
            let target = Target::<TrashKind>::parse(text).expect("a kind");
            let name = target.name(separate, "purge").map(str::to_owned);
            name.ok().map(|name| (target.kind, name))
        };
        let named = |kind| Some((kind, "data".to_owned()));
        assert_eq!(read("pvc/data", None), named(TrashKind::Pvc));
        assert_eq!(
            read("persistentvolumes", Some("data")),
            named(TrashKind::Pv)
        );
        for (text, separate) in [
            ("pvc", None),
            ("pvc/", None),
            ("pvc/data", Some("data")),
            ("pv", Some("")),
        ] {
            assert_eq!(read(text, separate), None, "{text} {separate:?}");
        }
    }

    #[test]
    fn the_error_names_the_kinds() {
        let error = Target::<TrashKind>::parse("node/n1").expect_err("no kind");
        assert_eq!(error, "node is none of: pvc, pv");
        let error = Target::<ClaimKind>::parse("pv").expect_err("no kind");
        assert_eq!(error, "pv is none of: pvc");
    }
}
