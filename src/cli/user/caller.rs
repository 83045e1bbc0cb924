//! The flags and the client of the commands that a user runs with their own permissions, as with
//! `kubectl`.

use super::exit_code::report_unknown;
use crate::{
    cli::kubeconfig,
    cluster::{connect, error_chain},
};
use anyhow::{Context as _, bail};
use clap::Args;
use kube::{Client, Config, config::AuthInfo};
use std::{path::PathBuf, process::ExitCode};

/// The cluster, and the user of the requests.
#[derive(Debug, Args)]
pub struct CallerOptions {
    /// Kubeconfig file [default: as kubectl: the files of $KUBECONFIG, else ~/.kube/config; in a
    /// pod without any of these, and without --context, its service account]
    #[arg(long)]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// User to impersonate, as with kubectl: the command runs with the permissions of this user
    /// [default: that of the kubeconfig]
    #[arg(long = "as", value_name = "USER")]
    as_user: Option<String>,

    /// Group to impersonate, together with --as [default: those of the kubeconfig]
    #[arg(long = "as-group", value_name = "GROUP", requires = "as_user")]
    as_groups: Vec<String>,
}

impl CallerOptions {
    /// Creates a client with the caller's credentials, and returns the namespace to use if none is
    /// given.
    ///
    /// # Errors
    /// When there is no usable kubeconfig or service account.
    async fn connect(&self) -> anyhow::Result<(Client, String)> {
        let mut config = self.config().await?;
        self.impersonate(&mut config.auth_info);
        let namespace = config.default_namespace.clone();
        let client = connect(config).context("cannot create the API client")?;
        Ok((client, namespace))
    }

    /// Returns the flags of this command line that select the cluster, for the commands that the
    /// output proposes: each after a space, and quoted for a shell. Without those that select the
    /// user, who may run the proposed command with other permissions.
    pub(in crate::cli) fn cluster_flags(&self) -> String {
        let kubeconfig = self.kubeconfig.as_ref();
        let kubeconfig = kubeconfig.map(|path| path.to_string_lossy());
        let flags = [
            ("context", self.context.as_deref()),
            ("kubeconfig", kubeconfig.as_deref()),
        ];
        let given = flags
            .iter()
            .filter_map(|(flag, value)| Some((flag, (*value)?)));
        given
            .map(|(flag, value)| format!(" --{flag}={}", quoted(value)))
            .collect()
    }

    /// Sets the user and the groups of the flags. As with kubectl, each of them replaces the one of
    /// the kubeconfig, and what no flag names stays.
    fn impersonate(&self, user: &mut AuthInfo) {
        if self.as_user.is_some() {
            user.impersonate.clone_from(&self.as_user);
        }
        if !self.as_groups.is_empty() {
            user.impersonate_groups = Some(self.as_groups.clone());
        }
    }

    /// Returns the cluster of the kubeconfig. The service account of the pod is used only if there
    /// is no kubeconfig: after an error in one, the command would run in another cluster than the
    /// caller means.
    async fn config(&self) -> anyhow::Result<Config> {
        let read = match &self.kubeconfig {
            Some(path) => Some(kubeconfig::read(path)?),
            None => kubeconfig::read_default()?,
        };
        match (read, &self.context) {
            (Some(read), context) => kubeconfig::config(read, context.clone()).await,
            (None, Some(context)) => bail!("there is no kubeconfig with the context {context}"),
            (None, None) => Config::incluster()
                .context("there is no kubeconfig, and this process does not run in a pod"),
        }
    }
}

/// The text as one word for a shell.
fn quoted(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./:@".contains(character);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Creates a client with the caller's credentials, and returns the namespace to use if none is
/// given.
///
/// # Errors
/// The exit code, after the error is printed.
pub(in crate::cli) async fn cluster(caller: &CallerOptions) -> Result<(Client, String), ExitCode> {
    let found = caller.connect().await;
    found.map_err(|error| report_unknown(error_chain(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        caller: CallerOptions,
    }

    /// The user and the groups to impersonate, with these flags and a kubeconfig with `as: a`.
    fn impersonated(flags: &[&str]) -> (String, Vec<String>) {
        let mut user = AuthInfo {
            impersonate: Some("a".into()),
            impersonate_groups: Some(vec!["b".into()]),
            ..AuthInfo::default()
        };
        let flags = Flags::try_parse_from([""].iter().chain(flags)).expect("flags");
        flags.caller.impersonate(&mut user);
        (
            user.impersonate.unwrap_or_default(),
            user.impersonate_groups.unwrap_or_default(),
        )
    }

    #[test]
    fn proposed_commands_select_the_same_cluster() {
        for (flags, expected) in [
            (&[][..], ""),
            (&["--as=a"], ""),
            (
                &["--context=arn:aws:eks/prod"],
                " --context=arn:aws:eks/prod",
            ),
            (
                &["--kubeconfig=my file", "--context=it's"],
                r" --context='it'\''s' --kubeconfig='my file'",
            ),
        ] {
            let flags = Flags::try_parse_from([""].iter().chain(flags)).expect("flags");
            assert_eq!(flags.caller.cluster_flags(), expected);
        }
    }

    #[test]
    fn flags_replace_the_impersonation_of_the_kubeconfig() {
        for (flags, user, groups) in [
            (&[][..], "a", ["b"]),
            (&["--as=c"], "c", ["b"]),
            (&["--as=c", "--as-group=d"], "c", ["d"]),
        ] {
            let expected = (user.to_owned(), groups.map(str::to_owned).to_vec());
            assert_eq!(impersonated(flags), expected, "{flags:?}");
        }
    }
}
