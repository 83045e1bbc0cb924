//! `volume-warden why`: what keeps an object, or keeps it from coming, and what to do next.

use super::{connection, print::print, why_tree::Tree};
use crate::{
    clock::Clock,
    cluster::connect,
    tls::install_crypto,
    why::{Explanation, Object, ask},
};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use kube::{Client, Config, config::KubeConfigOptions};
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// There is no such object.
const NOT_FOUND: u8 = 1;
/// What is needed could not be read.
const CANNOT_TELL: u8 = 2;
/// Between two looks with `--watch`.
const LOOK: Duration = Duration::from_secs(2);

/// For `--help`.
pub(super) const EXIT_CODES: &str = "Exit codes: 0 answered, also where no cause is known; 1 there is no such object; 2 it cannot be told, because something could not be \
read, or the command line is wrong.";

/// `volume-warden why`
#[derive(Debug, Args)]
pub struct WhyOptions {
    /// What it is.
    #[arg(value_enum)]
    kind: Kind,

    /// Its name.
    name: String,

    /// Its namespace [default: that of the kubeconfig's context]
    #[arg(short, long, default_value = "", hide_default_value = true)]
    namespace: String,

    /// How the answer is written.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,

    /// Look again every two seconds, and write the answer whenever it has changed, until the object is gone.
    #[arg(short, long, default_value_t)]
    watch: bool,

    /// Kubeconfig file [default: as kubectl: $KUBECONFIG, else ~/.kube/config; in a pod its service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// What can be asked about.
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

/// How the answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A tree, for people.
    #[default]
    Tree,
    /// One JSON object for each answer.
    Json,
    /// One YAML document for each answer.
    Yaml,
}

/// Explains.
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
    let (client, namespace) = match options.cluster().await {
        Ok(found) => found,
        Err(error) => {
            eprintln!("volume-warden: {error:#}");
            return Ok(ExitCode::from(CANNOT_TELL));
        }
    };
    let object = options.object(&namespace);
    if options.watch {
        return options.follow(client, &object).await;
    }
    let told = ask(client, &object, Clock::system().timestamp()).await;
    options.say(&told, &object)
}

impl WhyOptions {
    /// With the rights of whoever asks, and the namespace that is meant where none is given.
    async fn cluster(&self) -> anyhow::Result<(Client, String)> {
        let config = self.config().await?;
        let namespace = config.default_namespace.clone();
        let client = connect(config).context("the client cannot be made")?;
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
                .context("there is no usable kubeconfig, and this is not a pod of a cluster"),
        }
    }

    fn object(&self, default_namespace: &str) -> Object {
        let namespace = if self.namespace.is_empty() {
            default_namespace
        } else {
            &self.namespace
        };
        match self.kind {
            Kind::Pvc => Object::claim(namespace, &self.name),
            Kind::Pv => Object::volume(&self.name),
            Kind::Pod => Object::pod(namespace, &self.name),
            Kind::Statefulset => Object::stateful_set(namespace, &self.name),
            Kind::Namespace => Object::namespace(&self.name),
        }
    }

    /// Until the object is gone.
    async fn follow(&self, client: Client, object: &Object) -> anyhow::Result<ExitCode> {
        let mut said = None;
        loop {
            let told = ask(client.clone(), object, Clock::system().timestamp()).await;
            let code = if said
                .as_ref()
                .is_some_and(|said| told.says_the_same_as(said))
            {
                ExitCode::SUCCESS
            } else {
                self.say(&told, object)?
            };
            match (&told, said.is_some()) {
                (Explanation::NotFound, true) => return Ok(ExitCode::SUCCESS),
                (Explanation::NotFound, false) => return Ok(code),
                _ => {}
            }
            said = Some(told);
            tokio::time::sleep(LOOK).await;
        }
    }

    fn say(&self, told: &Explanation, object: &Object) -> anyhow::Result<ExitCode> {
        match told {
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
                    ExitCode::from(CANNOT_TELL)
                })
            }
            Explanation::NotFound => {
                eprintln!("volume-warden: there is no {object}");
                Ok(ExitCode::from(NOT_FOUND))
            }
            Explanation::Unread(errors) => {
                for error in errors {
                    eprintln!("volume-warden: {error}");
                }
                Ok(ExitCode::from(CANNOT_TELL))
            }
        }
    }
}
