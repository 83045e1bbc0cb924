//! The command line. Every flag of the commands that run in Volume Warden's pods is also an
//! environment variable.

mod caller;
mod certificate;
mod completions;
mod component_flags;
mod connection;
mod drain;
mod gc;
mod gc_report;
mod inventory;
pub mod kubeconfig;
mod man;
mod options;
mod other_namespace;
mod print;
mod probe;
mod purge;
mod renamed;
mod repair;
mod repair_plan;
mod replace;
mod report;
mod restoration;
mod run;
mod signals;
mod single_dash;
mod target;
mod tasks;
mod tls;
mod trash;
mod trash_common;
mod trash_copies;
mod trash_listed;
mod trash_report;
mod trash_unsettled;
mod undelete;
mod unused;
mod why;
mod why_output;
mod why_stuck;
mod why_target;
mod why_tree;

use self::print::complain;
use crate::{component::ComponentRef, version};
use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand, builder};
use std::{any::TypeId, ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

pub use options::RunOptions;

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  failure, with a message on standard error; `why`, `undelete`, `purge`: object not found
  2  the command line is wrong
  3  a read failed, or a write may have failed; `undelete`: not Bound; `drain`: objects in use";

/// The commands whose flags are also environment variables: the containers in `manifests` and the
/// chart set them. The flags of the other commands are not, so that no variable `VOLUME_WARDEN_*`
/// changes the answer to a user.
const WITH_ENVIRONMENT: [&str; 4] = ["run", "gc", "drain", "probe"];

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
    /// Delete the namespaces that Kubernetes does not have from the storage backend, once, or list
    /// them.
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

/// Returns the parser of the command line. Each of these components adds its flags to `run`.
pub fn command(components: &[ComponentRef]) -> clap::Command {
    let names: Vec<_> = components.iter().map(|each| each.name()).collect();
    let named = |help: String| {
        let parser = builder::PossibleValuesParser::new(names.clone());
        move |argument: Arg| argument.value_parser(parser).help(help)
    };
    let optional = components.iter().filter(|each| !each.runs_by_default());
    let optional: Vec<_> = optional.map(|each| each.name()).collect();
    let default = match optional.is_empty() {
        true => "all".to_owned(),
        false => format!("all except {}", optional.join(", ")),
    };
    Cli::command()
        .mut_subcommand("run", |run| {
            let run = run.mut_arg(
                "components",
                named(format!("Components to run; {default} by default")),
            );
            // clap replaces the description of the command by the doc comment of each group of
            // flags that is added, so the description is set again.
            let about = run.get_about().cloned().unwrap_or_default();
            let run = components.iter().fold(run, |run, each| each.flags(run));
            run.about(about).long_about(None)
        })
        .mut_subcommand("drain", |drain| {
            let help = "Components to drain; all by default. None of them may be running";
            drain.mut_arg("components", named(help.to_owned()))
        })
        .mut_subcommands(|command| {
            let with_environment = WITH_ENVIRONMENT.contains(&command.get_name());
            let complete = move |argument| completed(argument, with_environment);
            let command = command.mut_subcommands(|nested| nested.mut_args(complete));
            command.mut_args(complete)
        })
}

/// Adds the environment variable and the old name of a flag, and the name of its value by type.
/// Makes the value of a boolean flag optional.
fn completed(argument: Arg, with_environment: bool) -> Arg {
    let Some(flag) = argument.get_long().map(str::to_owned) else {
        return argument;
    };
    let argument = match with_environment {
        true => argument.env(renamed::variable(&flag)),
        false => argument,
    };
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
            // clap does not know these conflicts of options, so they are reported as usage errors
            // here.
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
        match self.command {
            // Warnings about old flag names: `run` logs them, and `why` has no flag with an old
            // name.
            Command::Run(_) | Command::Why(_) => {}
            _ => warnings.iter().for_each(complain),
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

    /// The variables of all flags of these commands, and of the commands below them, with the help
    /// text of each flag.
    fn variables(is_one: impl Fn(&str) -> bool) -> Vec<(String, String)> {
        let command = command(components::ALL);
        let named = command.get_subcommands();
        let named = named.filter(|each| is_one(each.get_name()));
        named.flat_map(variables_of).collect()
    }

    fn variables_of(command: &clap::Command) -> Vec<(String, String)> {
        let arguments = command.get_arguments();
        let flags = arguments.filter(|argument| !argument.is_positional());
        let flags = flags.filter(|argument| argument.get_id() != "help");
        let variables = flags.map(|flag| {
            let variable = flag.get_env().and_then(|name| name.to_str());
            let help = flag.get_help().map(ToString::to_string);
            (
                variable.unwrap_or_default().to_owned(),
                help.unwrap_or_default(),
            )
        });
        let below = command.get_subcommands().flat_map(variables_of);
        variables.chain(below).collect()
    }

    #[test]
    fn every_flag_of_a_command_in_the_pods_has_an_environment_variable() {
        let command = command(components::ALL);
        let named = command.get_subcommands();
        let named = named.filter(|each| WITH_ENVIRONMENT.contains(&each.get_name()));
        let arguments = named.flat_map(|command| command.get_arguments());
        let mut found = 0;
        for argument in arguments.filter(|argument| !argument.is_positional()) {
            let flag = argument.get_long().unwrap_or_default();
            if flag == "help" {
                continue;
            }
            let variable = argument.get_env().and_then(|name| name.to_str());
            let expected = format!("VOLUME_WARDEN_{}", flag.to_uppercase().replace('-', "_"));
            assert_eq!(variable, Some(&*expected), "--{flag}");
            found += 1;
        }
        assert!(found > 50, "{found}");
    }

    #[test]
    fn the_commands_of_users_read_no_variable() {
        let variables = variables(|name| !WITH_ENVIRONMENT.contains(&name));
        assert!(variables.len() >= 50, "{variables:?}");
        assert!(
            variables.iter().all(|(variable, _)| variable.is_empty()),
            "{variables:?}"
        );
    }

    /// A variable that several commands read has one meaning. Only `--dry-run` and `--components`
    /// have a text for each command.
    #[test]
    fn a_variable_means_the_same_for_each_command() {
        let all = variables(|name| WITH_ENVIRONMENT.contains(&name));
        for (variable, help) in &all {
            let texts = all.iter().filter(|(other, _)| other == variable);
            let own = ["VOLUME_WARDEN_DRY_RUN", "VOLUME_WARDEN_COMPONENTS"];
            if !own.contains(&&**variable) {
                assert!(texts.clone().all(|(_, text)| text == help), "{variable}");
            }
        }
        let twice = all
            .iter()
            .filter(|(name, _)| name == "VOLUME_WARDEN_NAMESPACE");
        assert!(twice.count() > 1);
    }
}
