//! Reads kubeconfigs. No message quotes a line of one, because it may contain a credential.

use anyhow::bail;
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

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

/// Returns the cluster and the user of a context of the kubeconfig; without a name, of the current
/// one.
///
/// # Errors
/// When the context does not exist, or its cluster or user cannot be used.
pub(super) async fn config(read: Kubeconfig, context: Option<String>) -> anyhow::Result<Config> {
    let options = KubeConfigOptions {
        context,
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(read, &options).await;
    config.map_err(|error| anyhow::anyhow!(kubeconfig_fault(&error)))
}

/// Reads the files that kubectl reads: those of `$KUBECONFIG`, else `~/.kube/config`. Returns
/// `None` if the variable names no file, and there is no `~/.kube/config`.
///
/// # Errors
/// When one cannot be read or is no kubeconfig, or the variable names only files that do not exist.
pub(super) fn read_default() -> anyhow::Result<Option<Kubeconfig>> {
    let variable = env::var_os("KUBECONFIG").unwrap_or_default();
    let home = env::home_dir().map(|home| home.join(".kube").join("config"));
    read_first(&variable, home.as_deref())
}

/// Merges the files that `variable` names and that exist, as kubectl does; if it names none, reads
/// the file `default`. kubectl also accepts that none of the named files exists, and then uses the
/// service account of its pod, which may be one of another cluster.
fn read_first(variable: &OsStr, default: Option<&Path>) -> anyhow::Result<Option<Kubeconfig>> {
    let named = env::split_paths(variable).filter(|path| !path.as_os_str().is_empty());
    let named: Vec<PathBuf> = named.collect();
    if named.is_empty() {
        let default = default.filter(|path| !is_absent(path));
        return default.map(read).transpose();
    }
    let mut merged = None;
    for path in named.iter().filter(|path| !is_absent(path)) {
        let next = read(path)?;
        merged = Some(match merged {
            None => next,
            Some(merged) => Kubeconfig::merge(merged, next)?,
        });
    }
    if merged.is_none() {
        let variable = variable.display();
        bail!("no file that $KUBECONFIG names exists: {variable}");
    }
    Ok(merged)
}

/// Whether there is no such file. A file that cannot be accessed may exist.
fn is_absent(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false))
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

    /// The current context of what is read, or the error, with these files in `$KUBECONFIG`, and
    /// `default` as `~/.kube/config`. The file `a` has the context `a`, `b` has `b`, and `broken`
    /// is no kubeconfig.
    fn context(named: &[&str], default: &str) -> String {
        let directory = tempfile::TempDir::new().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        for name in ["a", "b"] {
            let text = format!("current-context: {name}");
            std::fs::write(path(name), text).expect("writes");
        }
        std::fs::write(path("broken"), "users: 5").expect("writes");
        let variable = env::join_paths(named.iter().map(|name| match *name {
            "" => PathBuf::new(),
            name => path(name),
        }));
        let read = read_first(&variable.expect("a list"), Some(&path(default)));
        match read {
            Ok(None) => "none".to_owned(),
            Ok(Some(config)) => config.current_context.unwrap_or_default(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_first_files_that_exist_are_read() {
        for (named, default, found) in [
            (&[][..], "a", "a"),
            (&[""], "a", "a"),
            (&[], "absent", "none"),
            (&["b"], "a", "b"),
            (&["b", "a"], "absent", "b"),
            (&["absent", "b"], "a", "b"),
        ] {
            assert_eq!(context(named, default), found, "{named:?} {default}");
        }
    }

    /// The command must not run in the cluster of its pod, because the caller means another one.
    #[test]
    fn a_kubeconfig_that_cannot_be_read_is_an_error() {
        for (named, default, words) in [
            (&[][..], "broken", "line 1"),
            (&["a", "broken"], "a", "line 1"),
            (
                &["absent", "absent2"],
                "a",
                "no file that $KUBECONFIG names",
            ),
        ] {
            let error = context(named, default);
            assert!(error.contains(words), "{named:?}: {error}");
        }
    }

    #[test]
    fn an_absent_file_is_named_once() {
        let error = read(Path::new("/absent/config")).expect_err("there is no such file");
        let message = error.to_string();
        assert_eq!(message.matches("/absent/config").count(), 1, "{message}");
        assert!(message.contains("No such file"), "{message}");
    }
}
