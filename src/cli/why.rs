//! `volume-warden why`: explains what blocks the deletion, creation or start of an object, and the
//! next step.

mod kind;
mod output;
mod same_cluster;
mod table;
mod tree;

use super::{
    print::{print_error, print_while_read},
    user::{
        caller::{CallerOptions, cluster},
        exit_code::EXIT_UNKNOWN,
        runtime::block_on,
        target::{self, Target},
    },
};
use crate::{
    clock::Clock,
    go_duration,
    why::{Explanation, Object, Survey, Which, explain_live, survey},
};
use clap::{Args, error::ErrorKind};
use kind::Kind;
use kube::Client;
use output::Output;
use std::{ops::ControlFlow, process::ExitCode, time::Duration};

/// Exit code of `why` if the object, or with `--stuck` the namespace, does not exist.
const NOT_FOUND: u8 = 1;
/// Interval between two reads of the object with `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

pub(super) const EXIT_CODES: &str = "Exit codes: 0 answered, also when no cause is known or \
something is stuck; 1 the object, or with --stuck the namespace, does not exist; 2 the command \
line is wrong; 3 something that the answer requires could not be read, or there is no usable \
kubeconfig.";

/// `volume-warden why`
#[derive(Debug, Args)]
pub struct WhyOptions {
    /// Kind of the object: pvc, pv, pod, statefulset or namespace; or KIND/NAME, as kubectl prints
    /// it.
    #[arg(value_name = "KIND", value_parser = Target::<Kind>::parse, required_unless_present = "stuck")]
    target: Option<Target<Kind>>,

    /// Name of the object, if it does not follow the kind.
    name: Option<String>,

    /// List everything in the namespace that is stuck, with the root cause: claims, volumes, pods
    /// with volumes, StatefulSets and the namespace.
    #[arg(long, conflicts_with_all = ["target", "name", "watch"])]
    stuck: bool,

    /// With --stuck: all namespaces, and all volumes.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// With --stuck: leave out objects that have been in their state for a shorter time.
    #[arg(long, default_value = "1m", value_parser = go_duration::parse)]
    min_age: Duration,

    /// Namespace of the object [default: the namespace of the kubeconfig's context]
    #[arg(short, long, default_value = "", hide_default_value = true)]
    namespace: String,

    /// Output format; wide and name only with --stuck [default: tree; with --stuck a table]
    #[arg(short, long, value_enum)]
    output: Option<Output>,

    /// Read the object again every two seconds, and print the answer whenever it changes, until the
    /// object is deleted.
    #[arg(short, long, default_value_t)]
    watch: bool,

    #[command(flatten)]
    caller: CallerOptions,
}

/// Prints why the object is in its state, or, with `--stuck`, which objects are stuck.
///
/// # Errors
/// When the command line is wrong, or the answer cannot be written.
pub fn run(options: WhyOptions) -> anyhow::Result<ExitCode> {
    block_on(why(options))
}

async fn why(options: WhyOptions) -> anyhow::Result<ExitCode> {
    let target = options.target()?;
    let (client, namespace) = match cluster(&options.caller).await {
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    let Some((kind, name)) = target else {
        return options.list(client, namespace).await;
    };
    let object = options.object(kind, name, &namespace);
    if options.watch {
        return options.follow(client, &object).await;
    }
    let explanation = explain_live(client, &object, Clock::system().timestamp()).await;
    match options.report(&explanation, &object)? {
        ControlFlow::Continue(code) | ControlFlow::Break(code) => Ok(code),
    }
}

impl WhyOptions {
    /// The kind and the name of the object, which follows the kind or a slash; none with `--stuck`.
    ///
    /// # Errors
    /// When there is no name, or two, or when an option requires `--stuck` or excludes it.
    fn target(&self) -> Result<Option<(Kind, &str)>, clap::Error> {
        let table = matches!(self.output, Some(Output::Wide | Output::Name));
        let Some(target) = &self.target else {
            let misused = self.output == Some(Output::Tree);
            let message = "-o tree is for one object: leave out -o, or choose another format";
            return refuse_if(misused, ErrorKind::ArgumentConflict, message).map(|()| None);
        };
        let message = "-o wide and -o name require --stuck";
        refuse_if(table, ErrorKind::ArgumentConflict, message)?;
        let message = "-A requires --stuck";
        refuse_if(self.all_namespaces, ErrorKind::ArgumentConflict, message)?;
        let name = target.name(self.name.as_deref(), "why")?;
        Ok(Some((target.kind, name)))
    }

    fn object(&self, kind: Kind, name: &str, default_namespace: &str) -> Object {
        let namespace = target::namespace(&self.namespace, default_namespace);
        match kind {
            Kind::Pvc => Object::claim(namespace, name),
            Kind::Pv => Object::volume(name),
            Kind::Pod => Object::pod(namespace, name),
            Kind::Statefulset => Object::stateful_set(namespace, name),
            Kind::Namespace => Object::namespace(name),
        }
    }

    /// Prints what is stuck in the namespace, or in all namespaces.
    async fn list(&self, client: Client, default_namespace: String) -> anyhow::Result<ExitCode> {
        let one = if self.namespace.is_empty() {
            default_namespace
        } else {
            self.namespace.clone()
        };
        let which = Which {
            namespace: (!self.all_namespaces).then_some(one),
            min_age: self.min_age,
        };
        let now = Clock::system().timestamp();
        match survey(client, &which, now).await {
            Survey::Found(mut stuck) => {
                same_cluster::list(&mut stuck, &self.caller.cluster_flags());
                let text = output::list(&stuck, self.output, now)?;
                table::report(&stuck, &text)?;
                Ok(if stuck.unread.is_empty() {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::from(EXIT_UNKNOWN)
                })
            }
            Survey::NoNamespace => {
                let namespace = which.namespace.unwrap_or_default();
                print_error(format_args!("there is no Namespace {namespace}"));
                Ok(ExitCode::from(NOT_FOUND))
            }
        }
    }

    /// Reads and explains the object at intervals, and prints each explanation that differs from
    /// the one before, until the object does not exist, or until no process reads the output.
    async fn follow(&self, client: Client, object: &Object) -> anyhow::Result<ExitCode> {
        let (mut previous, mut existed) = (None, false);
        loop {
            let explanation =
                explain_live(client.clone(), object, Clock::system().timestamp()).await;
            let code = if previous
                .as_ref()
                .is_some_and(|previous| explanation.says_the_same_as(previous))
            {
                ExitCode::SUCCESS
            } else {
                match self.report(&explanation, object)? {
                    ControlFlow::Continue(code) => code,
                    ControlFlow::Break(code) => return Ok(code),
                }
            };
            match &explanation {
                Explanation::NotFound if existed => return Ok(ExitCode::SUCCESS),
                Explanation::NotFound => return Ok(code),
                Explanation::Explained(_) => existed = true,
                Explanation::Unread(_) => {}
            }
            previous = Some(explanation);
            tokio::time::sleep(WATCH_INTERVAL).await;
        }
    }

    /// Prints the explanation, and returns the exit code. It is `Break` if no process reads the
    /// output any more.
    fn report(
        &self,
        explanation: &Explanation,
        object: &Object,
    ) -> anyhow::Result<ControlFlow<ExitCode, ExitCode>> {
        let code = match explanation {
            Explanation::Explained(answer) => {
                let now = Clock::system().timestamp();
                let mut answer = answer.clone();
                same_cluster::answer(&mut answer, &self.caller.cluster_flags());
                let text = output::answer(&answer, self.output, now)?;
                let is_read = print_while_read(text.trim_end())?;
                let code = if answer.is_certain() {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::from(EXIT_UNKNOWN)
                };
                if !is_read {
                    return Ok(ControlFlow::Break(code));
                }
                code
            }
            Explanation::NotFound => {
                print_error(format_args!("there is no {object}"));
                ExitCode::from(NOT_FOUND)
            }
            Explanation::Unread(errors) => {
                for error in errors {
                    print_error(error);
                }
                ExitCode::from(EXIT_UNKNOWN)
            }
        };
        Ok(ControlFlow::Continue(code))
    }
}

fn refuse_if(refused: bool, kind: ErrorKind, message: &str) -> Result<(), clap::Error> {
    if refused {
        Err(clap::Error::raw(kind, message))
    } else {
        Ok(())
    }
}
