//! The command line. Every flag is also an environment variable.

mod certificate;
mod completions;
mod component_flags;
mod connection;
mod drain;
mod gc;
mod gc_report;
mod man;
mod options;
mod print;
mod probe;
mod renamed;
mod run;
mod signals;
mod single_dash;
mod tasks;
mod tls;
mod why;
mod why_tree;

use self::print::complain;
use crate::{component::ComponentRef, version};
use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand, builder};
use std::{any::TypeId, ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

pub use options::RunOptions;

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  failure, with a message on standard error; `why`: object not found
  2  the command line is wrong; `why`: something that the answer requires could not be read
  3  `drain` left objects that are in use unchanged, and listed them";

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
    Run(Box<RunOptions>),
    /// Remove what Volume Warden wrote on objects, before it is uninstalled.
    #[command(after_help = drain::EXIT_CODES)]
    Drain(Box<drain::DrainOptions>),
    /// Delete the namespaces that Kubernetes does not have from the storage backend, once, or list
    /// them.
    Gc(Box<gc::GcOptions>),
    /// Explain what blocks a claim, a volume, a pod, a StatefulSet or a namespace, and the next
    /// step.
    #[command(after_help = why::EXIT_CODES)]
    Why(why::WhyOptions),
    /// Check whether the `run` process in the same container is live or ready, for kubelet probes.
    Probe(probe::ProbeCommand),
    /// Generate shell completions.
    Completions(completions::CompletionsOptions),
    /// Print the manual page of the program or of a command.
    Man(man::ManOptions),
}

/// Returns the parser of the command line. Each of these components adds its flags to `run`.
pub fn command(components: &[ComponentRef]) -> clap::Command {
    let names: Vec<_> = components.iter().map(|each| each.name()).collect();
    let named = |help: &'static str| {
        let parser = builder::PossibleValuesParser::new(names.clone());
        move |argument: Arg| argument.value_parser(parser).help(help)
    };
    Cli::command()
        .mut_subcommand("run", |run| {
            let run = run.mut_arg("components", named("Components to run; all by default"));
            // clap uses the doc comment of each flag group as the description of the command.
            let about = run.get_about().cloned().unwrap_or_default();
            let run = components.iter().fold(run, |run, each| each.flags(run));
            run.about(about).long_about(None)
        })
        .mut_subcommand("drain", |drain| {
            let help = "Components to drain; all by default. None of them may be running";
            drain.mut_arg("components", named(help))
        })
        .mut_subcommands(|command| command.mut_args(completed))
}

/// Adds the environment variable and the old name of a flag, and the name of its value by type.
/// Makes the value of a boolean flag optional.
fn completed(argument: Arg) -> Arg {
    let Some(flag) = argument.get_long().map(str::to_owned) else {
        return argument;
    };
    let argument = argument.env(renamed::variable(&flag));
    let argument = match renamed::old_name(&flag) {
        Some(old) => argument.alias(old),
        None => argument,
    };
    let value = argument.get_value_parser().type_id();
    let numbers = [
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<usize>(),
    ];
    // Without an explicit name, clap's derive names a value after its field.
    let implied = argument.get_id().as_str().to_uppercase();
    let named = argument
        .get_value_names()
        .is_some_and(|names| names[0] != implied);
    match argument.get_action() {
        ArgAction::Set if value == TypeId::of::<bool>() => argument
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        ArgAction::Set if value == TypeId::of::<Duration>() => argument.value_name("DURATION"),
        ArgAction::Set if value == TypeId::of::<PathBuf>() && !named => argument.value_name("FILE"),
        ArgAction::Set if numbers.iter().any(|number| value == *number) => {
            argument.value_name("NUMBER")
        }
        _ => argument,
    }
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
    match cli.run(components, renamed::warnings(&arguments)) {
        Ok(code) => code,
        Err(error) => match error.downcast::<clap::Error>() {
            // Some conflicts of options are found only after parsing.
            Ok(usage) => usage.format(&mut command).exit(),
            Err(error) => {
                complain(format_args!("{error:#}"));
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
        if let Command::Run(options) = self.command {
            return run::run(*options, components, warnings).map(|()| ExitCode::SUCCESS);
        }
        for warning in warnings {
            complain(warning);
        }
        match self.command {
            Command::Run(_) => unreachable!(),
            Command::Drain(options) => drain::run(*options, components),
            Command::Gc(options) => gc::run(*options).map(|()| ExitCode::SUCCESS),
            Command::Why(options) => why::run(options),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::components;

    #[test]
    fn the_command_line_is_consistent() {
        command(components::ALL).debug_assert();
    }

    #[test]
    fn flags_of_components_do_not_change_the_help_of_a_command() {
        let (with, without) = (command(components::ALL), Cli::command());
        for own in without.get_subcommands() {
            let built = with
                .find_subcommand(own.get_name())
                .expect("the same commands");
            assert_eq!(built.get_about(), own.get_about());
            assert_eq!(built.get_long_about(), own.get_long_about());
        }
    }

    #[test]
    fn every_flag_has_an_environment_variable() {
        let mut command = command(components::ALL);
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
