//! The command line. Every flag of the commands that run in Volume Warden's pods is also an
//! environment variable.

mod completions;
mod drain;
mod gc;
pub mod kubeconfig;
mod man;
mod options;
mod parser;
mod print;
mod probe;
mod renamed_flags;
mod replace_file;
mod report;
mod run;
mod signals;
mod single_dash;
mod trash;
mod unused;
mod user;
mod why;

use self::{
    print::print_error,
    trash::{purge, undelete},
};
use crate::{cluster::error_chain, component::ComponentRef, version};
use clap::{FromArgMatches, Parser, Subcommand};
use std::{ffi::OsString, process::ExitCode};

pub use options::RunOptions;
pub use parser::command;

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  failure, with a message on standard error; `why`, `undelete`, `purge`: object not found;
     `drain`, `gc`: also a read that failed
  2  the command line is wrong
  3  a read failed, or a write may have failed; `undelete`: not Bound; `drain`: objects in use";

/// Manages Kubernetes volumes through their whole lifecycle.
///
/// Protects claims and volumes while they are in use, applies the retention policy of StatefulSets
/// to their claims, creates the claims that pods request by annotation, and makes released volumes
/// available again. Admission webhooks act when an object is created; reconcilers act afterwards.
#[derive(Debug, Parser)]
#[command(name = "volume-warden", version = version::VERSION_AND_COMMIT, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the webhooks and run the reconcilers.
    #[command(after_help = run::EXIT_CODES)]
    Run(Box<RunOptions>),
    /// Remove what Volume Warden wrote on objects, before it is uninstalled.
    #[command(after_help = drain::EXIT_CODES)]
    Drain(Box<drain::DrainOptions>),
    /// Run one garbage collection of the storage backend: delete, or list, its namespaces that do
    /// not exist in Kubernetes.
    #[command(after_help = gc::EXIT_CODES)]
    Gc(Box<gc::GcOptions>),
    /// Explain what blocks a claim, a volume, a pod, a StatefulSet or a namespace, and the next
    /// step.
    #[command(after_help = why::EXIT_CODES)]
    Why(why::WhyOptions),
    /// List the volumes whose data is kept after the deletion of their claims.
    #[command(after_help = trash::EXIT_CODES)]
    Trash(trash::TrashOptions),
    /// Undo the deletion of a claim: create a claim that gets its volume, with the data.
    #[command(after_help = undelete::EXIT_CODES)]
    Undelete(undelete::UndeleteOptions),
    /// Request that the data of a deleted claim is permanently deleted before its undelete window
    /// ends.
    #[command(after_help = purge::EXIT_CODES)]
    Purge(purge::PurgeOptions),
    /// List the claims and volumes that no pod uses: since when, what they cost, and what refers to
    /// them.
    #[command(after_help = unused::EXIT_CODES)]
    Unused(unused::UnusedOptions),
    /// Write an HTML page about the storage: what is used, what is not, what it costs, and the next
    /// command for each claim and volume.
    #[command(after_help = report::EXIT_CODES)]
    Report(report::ReportOptions),
    /// Check whether the `run` process in the same container is live or ready, for kubelet probes.
    #[command(after_help = probe::EXIT_CODES)]
    Probe(probe::ProbeCommand),
    /// Generate shell completions.
    #[command(after_help = completions::EXIT_CODES)]
    Completions(completions::CompletionsOptions),
    /// Print the manual page of the program or of a command.
    #[command(after_help = man::EXIT_CODES)]
    Man(man::ManOptions),
}

/// Runs the program with these components and the arguments of this process. Returns an exit code
/// that `--help` documents; exits if the arguments are wrong or request help.
pub fn main(components: &'static [ComponentRef]) -> ExitCode {
    let mut command = command(components);
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Err(error) = single_dash::refuse(&arguments, command.clone()) {
        error.exit();
    }
    let cli = Cli::from_arg_matches(&command.get_matches_mut());
    let cli = cli.unwrap_or_else(|error| error.format(&mut command).exit());
    match cli.run(components, renamed_flags::warnings(&arguments)) {
        Ok(code) => code,
        Err(error) => match error.downcast::<clap::Error>() {
            // clap does not know these conflicts of options, so they are reported as usage errors
            // here.
            Ok(usage) => usage.format(&mut command).exit(),
            Err(error) => {
                print_error(error_chain(&error));
                ExitCode::FAILURE
            }
        },
    }
}

impl Cli {
    fn run(
        self,
        components: &'static [ComponentRef],
        warnings: Vec<String>,
    ) -> anyhow::Result<ExitCode> {
        match self.command {
            // Warnings about old flag names: `run` logs them, and `why` has no flag with an old
            // name.
            Command::Run(_) | Command::Why(_) => {}
            _ => warnings.iter().for_each(print_error),
        }
        match self.command {
            Command::Run(options) => {
                run::run(*options, components, warnings).map(|()| ExitCode::SUCCESS)
            }
            Command::Drain(options) => drain::run(*options, components),
            Command::Gc(options) => gc::run(*options).map(|()| ExitCode::SUCCESS),
            Command::Why(options) => why::run(options),
            Command::Trash(options) => trash::run(options),
            Command::Unused(options) => unused::run(options),
            Command::Report(options) => report::run(options),
            Command::Undelete(options) => undelete::run(options),
            Command::Purge(options) => purge::run(options),
            Command::Probe(options) => probe::run(options),
            Command::Completions(options) => {
                completions::run(options, command(components)).map(|()| ExitCode::SUCCESS)
            }
            Command::Man(options) => {
                man::run(options, command(components)).map(|()| ExitCode::SUCCESS)
            }
        }
    }
}
