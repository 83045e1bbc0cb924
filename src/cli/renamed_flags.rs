//! Renamed flags. The old names still work, hidden from help. A warning reports each old name that
//! is used.

use std::{
    env,
    ffi::{OsStr, OsString},
};

/// The old name of each renamed flag, and its name since version 0.2.0.
const RENAMED: &[(&str, &str)] = &[
    ("api-ca-file", "storageos-ca-file"),
    ("api-client-cert-file", "storageos-client-cert-file"),
    ("api-client-key-file", "storageos-client-key-file"),
    ("api-endpoint", "storageos-endpoint"),
    ("api-refresh-interval", "storageos-refresh-interval"),
    ("api-retry-interval", "storageos-retry-interval"),
    ("api-secret-path", "storageos-secret-path"),
    ("lease-lock-id", "leader-elect-identity"),
    ("lease-lock-name", "leader-elect-resource-name"),
    ("lease-lock-namespace", "leader-elect-resource-namespace"),
    ("metrics-address", "metrics-bind-address"),
    ("orphan-grace-seconds", "orphan-grace"),
    ("probe-address", "probe-bind-address"),
    ("tls-key-file", "tls-private-key-file"),
    ("webhook-address", "webhook-bind-address"),
];

/// Returns the old name of a flag, if it has one.
pub(super) fn old_name(flag: &str) -> Option<&'static str> {
    let renamed = RENAMED.iter().find(|(_, new)| *new == flag);
    renamed.map(|(old, _)| *old)
}

/// Returns the environment variable of a flag: the variable of its old name if only that is set.
pub(super) fn variable(flag: &str) -> String {
    let new = variable_of(flag);
    let old = old_name(flag).map(variable_of);
    let old = old.filter(|old| is_set(old) && !is_set(&new));
    old.unwrap_or(new)
}

fn variable_of(flag: &str) -> String {
    format!("VOLUME_WARDEN_{}", flag.to_uppercase().replace('-', "_"))
}

fn is_set(variable: &str) -> bool {
    env::var_os(variable).is_some()
}

/// Returns a deprecation warning for each old name on the command line or in the environment.
pub(super) fn warnings(arguments: &[OsString]) -> Vec<String> {
    let flags: Vec<&str> = arguments.iter().filter_map(|each| flag(each)).collect();
    let renamed = RENAMED.iter();
    let used = renamed.flat_map(|(old, new)| {
        let (old_variable, new_variable) = (variable_of(old), variable_of(new));
        let by_flag = flags
            .contains(old)
            .then(|| format!("--{old} is deprecated: use --{new}"));
        let by_variable = is_set(&old_variable)
            .then(|| format!("{old_variable} is deprecated: use {new_variable}"));
        [by_flag, by_variable]
    });
    used.flatten().collect()
}

fn flag(argument: &OsStr) -> Option<&str> {
    let flag = argument.to_str()?.strip_prefix("--")?;
    flag.split('=').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cli::command, components};

    #[test]
    fn old_names_are_reported_once_each() {
        let arguments = [
            "run",
            "--metrics-address=:1",
            "--metrics-address",
            ":2",
            "--dry-run",
        ];
        let warnings = warnings(&arguments.map(OsString::from));
        assert_eq!(
            warnings,
            ["--metrics-address is deprecated: use --metrics-bind-address"]
        );
    }

    #[test]
    fn every_old_name_is_an_alias_of_a_flag_that_exists() {
        let command = command(components::ALL);
        let arguments = command
            .get_subcommands()
            .flat_map(|each| each.get_arguments());
        let flags: Vec<_> = arguments.filter_map(|each| each.get_long()).collect();
        for (old, new) in RENAMED {
            assert!(flags.contains(new), "--{new}");
            assert!(!flags.contains(old), "--{old}");
        }
        let parsed = command.try_get_matches_from([
            "volume-warden",
            "run",
            "--lease-lock-name=a",
            "--orphan-grace-seconds=90",
        ]);
        assert!(parsed.is_ok(), "{parsed:?}");
    }
}
