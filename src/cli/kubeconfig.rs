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

/// Returns why a kubeconfig cannot be used, in one line. The messages of the YAML parser and of the
/// certificate parser are not used, because they quote lines of the file.
pub fn kubeconfig_fault(error: &KubeconfigError) -> String {
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
        KubeconfigError::ParseCertificates(_) => {
            "the certificate-authority of its cluster is not valid PEM".to_owned()
        }
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

    /// A private key in the wrong field, whose first lines are read as headers.
    #[tokio::test]
    async fn a_message_quotes_no_line_of_a_certificate_authority() {
        let key = "-----BEGIN PRIVATE KEY-----\nt0ken\n\nt0ken\n-----END PRIVATE KEY-----\n";
        let key = serde_json::json!(k8s_openapi::ByteString(key.into()));
        let config = serde_json::json!({
            "clusters": [{"name": "a", "cluster": {
                "server": "https://a", "certificate-authority-data": key}}],
            "contexts": [{"name": "a", "context": {"cluster": "a"}}],
            "current-context": "a",
        });
        let config = Kubeconfig::from_yaml(&config.to_string()).expect("a kubeconfig");
        let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await;
        let fault = config.err().map(|error| kubeconfig_fault(&error));
        let expected = "the certificate-authority of its cluster is not valid PEM";
        assert_eq!(fault.as_deref(), Some(expected));
    }

    #[test]
    fn an_absent_file_is_named_once() {
        let error = read(Path::new("/absent/config")).expect_err("there is no such file");
        let message = error.to_string();
        assert_eq!(message.matches("/absent/config").count(), 1, "{message}");
        assert!(message.contains("No such file"), "{message}");
    }
}
