//! Reads kubeconfigs. No message quotes a line of one, because it may contain a credential.

use kube::config::{Kubeconfig, KubeconfigError};
use std::path::Path;

/// Reads a kubeconfig.
///
/// # Errors
/// When the file cannot be read, or is no kubeconfig.
pub(super) fn read(path: &Path) -> anyhow::Result<Kubeconfig> {
    Kubeconfig::read_from(path).map_err(|error| {
        let (path, why) = (path.display(), kubeconfig_fault(&error));
        anyhow::anyhow!("cannot read the kubeconfig {path}: {why}")
    })
}

/// Returns why a kubeconfig cannot be used, in one line. The parser's own message quotes the lines
/// around the fault.
pub(super) fn kubeconfig_fault(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(error) => match error.location() {
            Some(at) if at.line() > 0 => format!(
                "it is not a valid kubeconfig: line {}, column {}",
                at.line(),
                at.column()
            ),
            _ => "it is not a valid kubeconfig".to_owned(),
        },
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> Option<String> {
        let error = Kubeconfig::from_yaml(text).err()?;
        Some(kubeconfig_fault(&error))
    }

    #[test]
    fn a_message_quotes_no_credential() {
        for (text, place) in [
            (
                "users: [\n {name: a, user: {token: t0ken}}\n  - }",
                "line 3, column 3",
            ),
            (
                "users:\n- name: a\n  user:\n    token: [t0ken]",
                "line 4, column 12",
            ),
            ("users:\n- name: a\n  user: t0ken", "line 3, column 9"),
            (
                "users:\n- name: a\n  user:\n    token: t0ken\n  user: 5",
                "line 5, column 3",
            ),
        ] {
            let expected = format!("it is not a valid kubeconfig: {place}");
            assert_eq!(fault(text), Some(expected), "{text}");
        }
        assert_eq!(fault("users: []"), None);
    }

    #[test]
    fn an_absent_file_is_named_once() {
        let error = read(Path::new("/absent/config")).expect_err("there is no such file");
        let message = error.to_string();
        assert_eq!(message.matches("/absent/config").count(), 1, "{message}");
        assert!(message.contains("No such file"), "{message}");
    }
}
