//! The command line. Every flag is also an environment variable.

mod backend;
mod certificate;
mod collecting;
mod completions;
mod connection;
mod drain;
mod gc;
mod gc_report;
mod go_duration;
mod man;
mod options;
mod print;
mod probe;
mod provisioner;
mod releaser;
mod run;
mod signals;
mod single_dash;
mod tasks;
mod tls;
mod why;
mod why_tree;

use crate::version;
use clap::{CommandFactory, Parser, Subcommand};
use std::{ffi::OsString, process::ExitCode};

pub use options::RunOptions;

const EXIT_CODES: &str = "\
Exit codes:
  0  it ended as asked
  1  something failed; a sentence on standard error says what. Of why: there is no such object
  2  the command line is wrong. Of why: something could not be read that the answer rests on
  3  drain left objects alone that are in use, and listed them";

/// Looks after Kubernetes volumes through their whole life.
///
/// Protects claims and volumes while they are in use, lets the claims of StatefulSets go as their policy says, makes the claims that pods
/// ask for by annotation, and makes released volumes available again: admission webhooks write what an object needs from birth,
/// reconcilers see to the rest of its life.
#[derive(Debug, Parser)]
#[command(name = "volume-warden", version = version::VERSION_AND_COMMIT, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the webhooks and run the reconcilers.
    Run(Box<RunOptions>),
    /// Take back what Volume Warden wrote on objects, before it is removed for good.
    #[command(after_help = drain::EXIT_CODES)]
    Drain(Box<drain::DrainOptions>),
    /// Remove from the storage backend the namespaces that Kubernetes does not have, once; or say which.
    Gc(Box<gc::GcOptions>),
    /// Say why a claim, a volume, a pod, a StatefulSet or a namespace is as it is, and what to do next.
    #[command(after_help = why::EXIT_CODES)]
    Why(why::WhyOptions),
    /// Ask the `run` in the same container whether it is alive or ready: for the probes of the kubelet.
    Probe(probe::ProbeCommand),
    /// Print what makes a shell complete the command line.
    Completions(completions::CompletionsOptions),
    /// Print the manual page, of the program or of one of its commands.
    Man(man::ManOptions),
}

impl Cli {
    /// Of the arguments of this process. It ends here if they are wrong, or only ask for help.
    pub fn from_arguments() -> Self {
        let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        if let Err(error) = single_dash::refuse(&arguments, Self::command()) {
            error.exit();
        }
        Self::parse()
    }

    /// Does what the command line says, with the exit codes of its help.
    pub fn run(self) -> ExitCode {
        let done = match self.command {
            Command::Run(options) => run::run(*options).map(|()| ExitCode::SUCCESS),
            Command::Drain(options) => drain::run(*options),
            Command::Gc(options) => gc::run(*options).map(|()| ExitCode::SUCCESS),
            Command::Why(options) => why::run(options),
            Command::Probe(options) => probe::run(options),
            Command::Completions(options) => completions::run(options).map(|()| ExitCode::SUCCESS),
            Command::Man(options) => man::run(options).map(|()| ExitCode::SUCCESS),
        };
        match done {
            Ok(code) => code,
            Err(error) => {
                // A combination that only becomes clear while it is put together.
                if let Some(usage) = error.downcast_ref::<clap::Error>() {
                    usage.exit();
                }
                eprintln!("volume-warden: {error:#}");
                ExitCode::FAILURE
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_is_an_environment_variable_too() {
        let mut command = Cli::command();
        let commands = command.get_subcommands_mut();
        let arguments = commands.flat_map(|command| command.get_arguments());
        let flags = arguments.filter(|argument| !argument.is_positional());
        for argument in flags.filter(|argument| argument.get_id() != "help") {
            let variable = argument
                .get_env()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let flag = argument
                .get_long()
                .unwrap_or_default()
                .to_uppercase()
                .replace('-', "_");
            assert!(
                variable == format!("VOLUME_WARDEN_{flag}"),
                "--{} has {variable}",
                argument.get_id()
            );
        }
    }
}
