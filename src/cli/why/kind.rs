//! The kinds of object on the command line of `why`.

use clap::ValueEnum;

/// Kinds that `why` can explain.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Kind {
    /// A PersistentVolumeClaim.
    #[value(aliases = ["persistentvolumeclaim", "persistentvolumeclaims"])]
    Pvc,
    /// A PersistentVolume.
    #[value(aliases = ["persistentvolume", "persistentvolumes"])]
    Pv,
    /// A Pod.
    #[value(aliases = ["pods", "po"])]
    Pod,
    /// A StatefulSet.
    #[value(aliases = ["statefulsets", "sts"])]
    Statefulset,
    /// A Namespace.
    #[value(aliases = ["namespaces", "ns"])]
    Namespace,
}

#[cfg(test)]
mod tests {
    use super::Kind;
    use crate::cli::user::target::Target;

    #[test]
    fn an_object_is_named_as_kubectl_prints_it() {
        for (text, expected) in [
            ("statefulset.apps/web", Some("web")),
            ("persistentvolumeclaim/data", Some("data")),
            ("PVC", None),
        ] {
            let target = Target::<Kind>::parse(text).expect(text);
            assert_eq!(target.name(None, "why").ok(), expected, "{text}");
            let is_set = matches!(target.kind, Kind::Statefulset);
            assert_eq!(is_set, text.starts_with("statefulset"), "{text}");
        }
        assert!(Target::<Kind>::parse("node/one").is_err());
    }
}
