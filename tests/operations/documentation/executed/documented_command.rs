//! Turns a command that a page shows into a script that can run in the tests.

use std::path::Path;

/// Verbs of `kubectl` whose commands become dry runs, because other commands use the objects that
/// they would delete or change.
const CHANGING_VERBS: [&str; 6] = ["apply", "create", "delete", "patch", "replace", "scale"];
/// Text of the pages, and the text that replaces it, often the name of an object of the fixture.
/// `$VOLUME` is the volume of the claim that was deleted last.
const REPLACEMENTS: [(&str, &str); 11] = [
    // The tests do not need `man`.
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
pub struct DocumentedCommand {
    script: String,
}

impl DocumentedCommand {
    pub fn new(page: &Path, shown: &str) -> Self {
        // A command that the documentation runs in the container runs outside of it here.
        let inside = shown.split_once(" -- /").map(|(_, inside)| inside);
        let mut script = inside.unwrap_or(shown).to_owned();
        for (text, replacement) in REPLACEMENTS {
            script = script.replace(text, replacement);
        }
        if let Some((command, _file)) = script.split_once(" > ") {
            script = format!("{command} > /dev/null");
        }
        // The commands of this page are for the namespace `volume-warden`.
        let has_namespace = [" -n ", " -A "].iter().any(|flag| script.contains(flag));
        if page.ends_with("runbooks.md") && !has_namespace {
            script = script.replacen("kubectl ", "kubectl -n volume-warden ", 1);
        }
        let words: Vec<&str> = script.split(' ').collect();
        let changes = words.iter().any(|word| CHANGING_VERBS.contains(word));
        let dry_run = words.contains(&"kubectl") && changes;
        script += match words[..] {
            ["helm", "rollback", ..] => " --dry-run=server",
            ["helm", "uninstall", ..] => " --dry-run",
            _ if dry_run => " --dry-run=server",
            ["volume-warden", "drain", ..] => " --dry-run",
            ["volume-warden", "undelete", ..] if !has_namespace => " -n shop",
            // Standard input is not a terminal, so these commands cannot ask for confirmation.
            ["volume-warden", "purge", ..] | ["volume-warden", "trash", "repair", ..] => " --yes",
            _ => "",
        };
        Self { script }
    }

    /// The script for bash.
    pub fn script(&self) -> &str {
        &self.script
    }

    /// Whether the command runs until it is stopped.
    pub fn is_watch(&self) -> bool {
        self.script.ends_with(" --watch")
    }

    /// The name of the claim in the namespace `shop` that the command restores or purges, if any.
    pub fn deleted_claim(&self) -> Option<&str> {
        let words: Vec<&str> = self.script.split([' ', '/']).collect();
        match words[..] {
            ["volume-warden", "undelete" | "purge", "pvc", name, ..] => Some(name),
            ["volume-warden", "purge", ..] => Some("purged"),
            _ => None,
        }
    }
}
