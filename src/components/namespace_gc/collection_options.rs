//! The flags that select which namespaces are deleted from the storage backend, and when.

use super::{Glob, Options, Scope, backend_options::BackendOptions};
use crate::go_duration;
use clap::Args;
use std::time::Duration;

/// Options of every collection of orphaned namespaces, both in `volume-warden run` and in
/// `volume-warden gc`.
#[derive(Debug, Args)]
#[command(next_help_heading = "namespace-gc: collection")]
pub struct CollectionOptions {
    /// Maximum concurrent deletions in the storage backend.
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u16).range(1..))]
    namespace_delete_workers: u16,

    /// Interval between the two LISTs of Kubernetes namespaces in one collection. Only namespaces
    /// of the storage backend that are in neither LIST are deleted.
    #[arg(long, default_value = "10s", value_parser = go_duration::parse)]
    gc_confirm_after: Duration,

    /// Which namespaces a collection may delete from the storage backend: all that Kubernetes does
    /// not have, or of these only the ones that this cluster once had (seen) [default: all for
    /// storageos, seen for directory]
    #[arg(long, value_enum)]
    gc_scope: Option<Scope>,

    /// Names of namespaces that are never deleted from the storage backend; * matches any
    /// characters.
    #[arg(
        long,
        default_value = "default,kube-*",
        value_delimiter = ',',
        value_name = "NAME,…"
    )]
    gc_protect: Vec<Glob>,

    /// Maximum number of namespaces that one collection tries to delete from the storage backend,
    /// in the order of their names; 0 means no limit. Those that turn out not to be empty count,
    /// too: if `gc --once` meets as many of these, raise the limit to reach those after them.
    #[arg(long, default_value_t = 100)]
    gc_max_deletions: u32,

    /// Minimum age of a namespace in the storage backend before a collection deletes it. In a
    /// directory, the age is the time since the last change.
    #[arg(long, default_value = "1m", value_parser = go_duration::parse)]
    gc_grace: Duration,
}

/// Schedule of the periodic collections in `volume-warden run`.
#[derive(Debug, Args)]
#[command(next_help_heading = "namespace-gc: schedule")]
pub struct PeriodOptions {
    /// Delay from the acquisition of the Lease to the first collection of orphaned namespaces.
    #[arg(long, default_value = "20s", value_parser = go_duration::parse)]
    namespace_delete_gc_delay: Duration,

    /// Interval between collections of orphaned namespaces; 0 disables all collections, including
    /// the first.
    #[arg(
        long,
        default_value = "1h",
        value_parser = go_duration::parse_interval,
    )]
    namespace_delete_gc_interval: Duration,
}

impl CollectionOptions {
    /// Whether `--gc-scope` is set.
    pub fn names_scope(&self) -> bool {
        self.gc_scope.is_some()
    }

    /// The options for one collection of that backend, without a schedule.
    pub fn options(&self, backend: &BackendOptions, dry_run: bool) -> Options {
        Options {
            scope: self.gc_scope.unwrap_or_else(|| backend.scope()),
            protect: self.gc_protect.clone(),
            grace: self.gc_grace,
            max_deletions: self.gc_max_deletions.try_into().unwrap_or(usize::MAX),
            confirm_after: self.gc_confirm_after,
            delay: Duration::ZERO,
            interval: Duration::ZERO,
            workers: self.namespace_delete_workers.into(),
            dry_run,
        }
    }
}

impl PeriodOptions {
    /// Adds this schedule to the options of one collection.
    pub fn repeated(&self, options: Options) -> Options {
        Options {
            delay: self.namespace_delete_gc_delay,
            interval: self.namespace_delete_gc_interval,
            ..options
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        backend: BackendOptions,
        #[command(flatten)]
        collection: CollectionOptions,
        #[command(flatten)]
        period: PeriodOptions,
    }

    fn options(flags: &[&str]) -> Options {
        let line = ["run"].iter().chain(flags);
        let arguments = Arguments::parse_from(line);
        let once = arguments.collection.options(&arguments.backend, false);
        arguments.period.repeated(once)
    }

    #[test]
    fn without_flags_the_documented_defaults_apply() {
        let expected = Options::default();
        assert_eq!(format!("{:?}", options(&[])), format!("{expected:?}"));
        let directory = ["--storage-backend=directory", "--directory-root=/r"];
        assert_eq!(options(&directory).scope, Scope::Seen);
    }

    #[test]
    fn every_flag_sets_its_option() {
        let actual = format!(
            "{:?}",
            options(&[
                "--gc-scope=seen",
                "--gc-protect=a*,b",
                "--gc-grace=11s",
                "--gc-max-deletions=12",
                "--gc-confirm-after=13s",
                "--namespace-delete-gc-delay=14s",
                "--namespace-delete-gc-interval=15s",
                "--namespace-delete-workers=16",
            ])
        );
        let expected = r#"Options { scope: Seen, protect: [Glob("a*"), Glob("b")], grace: 11s, max_deletions: 12, confirm_after: 13s, delay: 14s, interval: 15s, workers: 16, dry_run: false }"#;
        assert_eq!(actual, expected);
    }
}
