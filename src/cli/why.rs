//! `volume-warden why`: explains what blocks the deletion, creation or start of an object, and the
//! next step.

use super::{
    connection,
    print::{complain, print},
    why_tree::Tree,
};
use crate::{
    clock::Clock,
    cluster::connect,
    tls::install_crypto,
    why::{Explanation, Object, ask},
};
use anyhow::Context as _;
use clap::{Args, ValueEnum, error::ErrorKind};
use kube::{Client, Config, config::KubeConfigOptions};
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Exit code of `why` if the object does not exist.
const NOT_FOUND: u8 = 1;
/// Exit code of `why` if something that the answer requires could not be read. It is not clap's 2
/// for a wrong command line.
const UNREADABLE: u8 = 3;
/// Interval between two reads of the object with `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

pub(super) const EXIT_CODES: &str = "Exit codes: 0 answered, also when no cause is known; \
1 object not found; 2 the command line is wrong; 3 something that the answer requires could not be \
read.";

/// `volume-warden why`
#[derive(Debug, Args)]
pub struct WhyOptions {
    /// Kind of the object: pvc, pv, pod, statefulset or namespace; or KIND/NAME, as kubectl prints
    /// it.
    #[arg(value_name = "KIND", value_parser = Target::parse)]
    target: Target,

    /// Name of the object, if it does not follow the kind.
    name: Option<String>,

    /// Namespace of the object [default: the namespace of the kubeconfig's context]
    #[arg(short, long, default_value = "", hide_default_value = true)]
    namespace: String,

    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,

    /// Read the object again every two seconds, and print the answer whenever it changes, until the
    /// object is gone.
    #[arg(short, long, default_value_t)]
    watch: bool,

    /// Kubeconfig file [default: as kubectl: $KUBECONFIG, else ~/.kube/config; in a pod, its
    /// service account]
    #[arg(long)]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// User to impersonate, as with kubectl: the answer has what this user may read.
    #[arg(long = "as", value_name = "USER")]
    as_user: Option<String>,

    /// Group to impersonate, together with --as.
    #[arg(long = "as-group", value_name = "GROUP", requires = "as_user")]
    as_groups: Vec<String>,
}

/// The kind of the object, with its name if both were given as one argument.
#[derive(Clone, Debug)]
struct Target {
    kind: Kind,
    name: Option<String>,
}

impl Target {
    fn parse(text: &str) -> Result<Self, String> {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => (kind, Some(name.to_owned())),
            None => (text, None),
        };
        // kubectl prints the API group behind the kind: statefulset.apps/web
        let kind = kind.split_once('.').map_or(kind, |(kind, _)| kind);
        let kind = Kind::from_str(kind, true)
            .map_err(|_| format!("{kind} is none of: pvc, pv, pod, statefulset, namespace"))?;
        Ok(Self { kind, name })
    }
}

/// Kinds that `why` can explain.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
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

/// Output format of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A tree of causes, as text.
    #[default]
    Tree,
    /// One JSON object per answer.
    Json,
    /// One YAML document per answer.
    Yaml,
}

/// Prints why the object is in its state.
///
/// # Errors
/// When the answer cannot be written.
pub fn run(options: WhyOptions) -> anyhow::Result<ExitCode> {
    install_crypto();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(why(options))
}

async fn why(options: WhyOptions) -> anyhow::Result<ExitCode> {
    let name = options.name()?;
    let (client, namespace) = match options.cluster().await {
        Ok(found) => found,
        Err(error) => {
            complain(format_args!("{error:#}"));
            return Ok(ExitCode::from(UNREADABLE));
        }
    };
    let object = options.object(name, &namespace);
    if options.watch {
        return options.follow(client, &object).await;
    }
    let explanation = ask(client, &object, Clock::system().timestamp()).await;
    options.report(&explanation, &object)
}

impl WhyOptions {
    /// Creates a client with the caller's credentials, and returns the namespace to use if none is
    /// given.
    async fn cluster(&self) -> anyhow::Result<(Client, String)> {
        let mut config = self.config().await?;
        config.auth_info.impersonate.clone_from(&self.as_user);
        if !self.as_groups.is_empty() {
            config.auth_info.impersonate_groups = Some(self.as_groups.clone());
        }
        let namespace = config.default_namespace.clone();
        let client = connect(config).context("cannot create the API client")?;
        Ok((client, namespace))
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        if let Some(path) = &self.kubeconfig {
            let read = connection::read(path)?;
            return Ok(Config::from_custom_kubeconfig(read, &options).await?);
        }
        match Config::from_kubeconfig(&options).await {
            Ok(config) => Ok(config),
            Err(error) => Config::incluster()
                .map_err(|_| error)
                .context("no usable kubeconfig found, and this process does not run in a pod"),
        }
    }

    /// The name of the object, which follows the kind or a slash.
    ///
    /// # Errors
    /// When there is no name, or two.
    fn name(&self) -> Result<&str, clap::Error> {
        match (&self.target.name, &self.name) {
            (Some(name), None) | (None, Some(name)) if !name.is_empty() => Ok(name),
            _ => {
                let message = "exactly one name is required: why pvc NAME, or why pvc/NAME";
                Err(clap::Error::raw(ErrorKind::WrongNumberOfValues, message))
            }
        }
    }

    fn object(&self, name: &str, default_namespace: &str) -> Object {
        let namespace = if self.namespace.is_empty() {
            default_namespace
        } else {
            &self.namespace
        };
        match self.target.kind {
            Kind::Pvc => Object::claim(namespace, name),
            Kind::Pv => Object::volume(name),
            Kind::Pod => Object::pod(namespace, name),
            Kind::Statefulset => Object::stateful_set(namespace, name),
            Kind::Namespace => Object::namespace(name),
        }
    }

    /// Prints each new explanation until the object is gone.
    async fn follow(&self, client: Client, object: &Object) -> anyhow::Result<ExitCode> {
        let mut previous = None;
        loop {
            let explanation = ask(client.clone(), object, Clock::system().timestamp()).await;
            let code = if previous
                .as_ref()
                .is_some_and(|previous| explanation.says_the_same_as(previous))
            {
                ExitCode::SUCCESS
            } else {
                self.report(&explanation, object)?
            };
            match (&explanation, previous.is_some()) {
                (Explanation::NotFound, true) => return Ok(ExitCode::SUCCESS),
                (Explanation::NotFound, false) => return Ok(code),
                _ => {}
            }
            previous = Some(explanation);
            tokio::time::sleep(WATCH_INTERVAL).await;
        }
    }

    fn report(&self, explanation: &Explanation, object: &Object) -> anyhow::Result<ExitCode> {
        match explanation {
            Explanation::Explained(answer) => {
                let text = match self.output {
                    Output::Tree => Tree(answer, Clock::system().timestamp()).to_string(),
                    Output::Json => format!("{}\n", serde_json::to_string(answer)?),
                    Output::Yaml => format!("---\n{}", serde_saphyr::to_string(answer)?),
                };
                print(text.trim_end())?;
                let certain = answer.is_certain();
                Ok(if certain {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::from(UNREADABLE)
                })
            }
            Explanation::NotFound => {
                complain(format_args!("there is no {object}"));
                Ok(ExitCode::from(NOT_FOUND))
            }
            Explanation::Unread(errors) => {
                for error in errors {
                    complain(error);
                }
                Ok(ExitCode::from(UNREADABLE))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Target};

    #[test]
    fn an_object_is_named_as_kubectl_prints_it() {
        for (text, expected) in [
            ("statefulset.apps/web", Some("web")),
            ("persistentvolumeclaim/data", Some("data")),
            ("PVC", None),
        ] {
            let target = Target::parse(text).expect(text);
            assert_eq!(target.name.as_deref(), expected, "{text}");
            let is_set = matches!(target.kind, Kind::Statefulset);
            assert_eq!(is_set, text.starts_with("statefulset"), "{text}");
        }
        assert!(Target::parse("node/one").is_err());
    }
}
