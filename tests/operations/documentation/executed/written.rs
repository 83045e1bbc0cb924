//! A command as a page shows it, and the script that executes it.

use std::path::Path;

/// Verbs of `kubectl` whose commands become dry runs: other commands use what they would delete or
/// change.
const CHANGES: [&str; 6] = ["apply", "create", "delete", "patch", "replace", "scale"];
/// Placeholders, and the fixture's objects; `$VOLUME` is the volume of the last deleted claim.
const VALUES: [(&str, &str); 11] = [
    // The tests do not need that program.
    (" | man -l -", ""),
    ("--kubeconfig FILE", "--kubeconfig $KUBECONFIG"),
    ("--html FILE", "--html report.html"),
    ("/srv/nfs", "$ROOT"),
    ("pvc-7f3a", "$VOLUME"),
    ("pv NAME", "pv $VOLUME"),
    ("--volume PV", "--volume $VOLUME"),
    ("statefulset NAME -n NAMESPACE", "statefulset cache-nodes"),
    ("-n NAMESPACE", "-n shop"),
    ("pvc NAME", "pvc ledger"),
    ("pvc/NAME", "pvc/ledger"),
];

/// A command of a page.
#[derive(Debug)]
pub struct Command {
    script: String,
}

impl Command {
    pub fn new(page: &Path, shown: &str) -> Self {
        // What the documentation runs in the container is run outside of it.
        let inside = shown.split_once(" -- /").map(|(_, inside)| inside);
        let mut script = inside.unwrap_or(shown).to_owned();
        for (placeholder, value) in VALUES {
            script = script.replace(placeholder, value);
        }
        if let Some((command, _file)) = script.split_once(" > ") {
            script = format!("{command} > /dev/null");
        }
        // That page says so.
        let has_namespace = [" -n ", " -A "].iter().any(|flag| script.contains(flag));
        if page.ends_with("runbooks.md") && !has_namespace {
            script = script.replacen("kubectl ", "kubectl -n volume-warden ", 1);
        }
        let words: Vec<&str> = script.split(' ').collect();
        let dry_run = words.contains(&"kubectl") && words.iter().any(|word| CHANGES.contains(word));
        script += match words[..] {
            ["helm", "rollback", ..] => " --dry-run=server",
            ["helm", "uninstall", ..] => " --dry-run",
            _ if dry_run => " --dry-run=server",
            ["volume-warden", "drain", ..] => " --dry-run",
            ["volume-warden", "undelete", ..] if !has_namespace => " -n shop",
            // Standard input is no terminal.
            ["volume-warden", "purge", ..] | ["volume-warden", "trash", "repair", ..] => " --yes",
            _ => "",
        };
        Self { script }
    }

    /// The script for bash.
    pub fn script(&self) -> &str {
        &self.script
    }

    /// Whether it runs until it is stopped.
    pub fn is_watch(&self) -> bool {
        self.script.ends_with(" --watch")
    }

    /// The name of the claim in the namespace `shop` that it restores or purges, if it does.
    pub fn deleted_claim(&self) -> Option<&str> {
        let words: Vec<&str> = self.script.split([' ', '/']).collect();
        match words[..] {
            ["volume-warden", "undelete" | "purge", "pvc", name, ..] => Some(name),
            ["volume-warden", "purge", ..] => Some("purged"),
            _ => None,
        }
    }
}
