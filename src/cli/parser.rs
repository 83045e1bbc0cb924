//! The parser of the command line: the flags that components add, and the environment variable and
//! the old name of each flag.

use super::{Cli, renamed_flags};
use crate::component::ComponentRef;
use clap::{Arg, ArgAction, CommandFactory as _, builder};
use std::{any::TypeId, path::PathBuf, time::Duration};

/// The commands whose flags are also environment variables: the containers in `manifests` and the
/// chart set them. The flags of the other commands are not, so that no variable `VOLUME_WARDEN_*`
/// changes the answer to a user.
const WITH_ENVIRONMENT: [&str; 4] = ["run", "gc", "drain", "probe"];

/// Returns the parser of the command line. Each of these components adds its flags to `run`.
pub fn command(components: &[ComponentRef]) -> clap::Command {
    let names: Vec<_> = components.iter().map(|each| each.name()).collect();
    let named = |help: String| {
        let parser = builder::PossibleValuesParser::new(names.clone());
        move |argument: Arg| argument.value_parser(parser).help(help)
    };
    let optional = components.iter().filter(|each| !each.runs_by_default());
    let optional: Vec<_> = optional.map(|each| each.name()).collect();
    let default = if optional.is_empty() {
        "all".to_owned()
    } else {
        format!("all except {}", optional.join(", "))
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
    let argument = if with_environment {
        argument.env(renamed_flags::variable(&flag))
    } else {
        argument
    };
    let argument = match renamed_flags::old_name(&flag) {
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
