//! The commands that the page shows. A user copies them into a shell, so no text from the cluster
//! may become more than one word of a command.

use crate::objects::is_possible_name;

/// Returns whether the name is one word for every shell and no option. The API server guarantees
/// that for the names of objects, but not for the claim that a volume names.
pub(super) fn is_safe(name: &str) -> bool {
    is_possible_name(name)
}

/// Returns the command that explains the claim; none if a name is not safe in a shell.
pub(super) fn why_claim(namespace: &str, name: &str) -> Option<String> {
    let safe = is_safe(namespace) && is_safe(name);
    safe.then(|| format!("volume-warden why pvc/{name} -n {namespace}"))
}

/// Returns the command that explains the volume; none if its name is not safe in a shell.
pub(super) fn why_volume(name: &str) -> Option<String> {
    is_safe(name).then(|| format!("volume-warden why pv/{name}"))
}

/// Returns the command that deletes the claim; none if a name is not safe in a shell.
pub(super) fn delete(namespace: &str, name: &str) -> Option<String> {
    let safe = is_safe(namespace) && is_safe(name);
    safe.then(|| format!("kubectl delete pvc {name} -n {namespace}"))
}

/// Returns the command that restores a deleted claim; none if a name is not safe in a shell. With
/// `volume`, the command selects that volume, because several deleted claims have this name. With
/// `to`, the namespace of the claim or a placeholder for one, it is a command of an administrator.
pub(super) fn undelete(
    namespace: &str,
    name: &str,
    volume: Option<&str>,
    to: Option<&str>,
) -> Option<String> {
    let safe = is_safe(namespace) && is_safe(name) && volume.is_none_or(is_safe);
    let from = volume.map_or_else(String::new, |volume| format!(" --volume {volume}"));
    let to = to.map_or_else(String::new, |to| format!(" --to-namespace {to}"));
    safe.then(|| format!("volume-warden undelete pvc {name} -n {namespace}{from}{to}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_one_word_is_in_no_command() {
        let long = "a".repeat(254);
        for name in [
            "", "-A", "a b", "a;b", "$(a)", "a\nb", "A", "'a", "\u{202e}", &long,
        ] {
            assert_eq!(why_claim("shop", name), None, "{name}");
            assert_eq!(why_claim(name, "data"), None, "{name}");
            assert_eq!(why_volume(name), None, "{name}");
            assert_eq!(delete("shop", name), None, "{name}");
            assert_eq!(undelete(name, "data", None, None), None, "{name}");
            assert_eq!(undelete("shop", "data", Some(name), None), None, "{name}");
        }
    }
}
