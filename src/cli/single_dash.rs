//! Rejects flags with a single dash, as Go programs accept them, with an error that names the
//! correct flag.

use super::renamed_flags::old_name;
use clap::{Arg, Command, error::ErrorKind};
use std::ffi::{OsStr, OsString};

/// Checks the arguments, without the name of the program, before they are parsed.
///
/// # Errors
/// A usage error for the first argument that has a single dash and more than one character after
/// it, such as `-namespace` or `-ojson`.
pub(super) fn refuse(arguments: &[OsString], mut command: Command) -> Result<(), clap::Error> {
    let Some(name) = arguments
        .iter()
        .find_map(|argument| single_dashed(argument))
    else {
        return Ok(());
    };
    let known = {
        let flags = command.get_subcommands().flat_map(Command::get_arguments);
        let mut flags = flags.filter_map(Arg::get_long);
        let known = flags.find(|flag| *flag == name || old_name(flag) == Some(name));
        known.map(str::to_owned)
    };
    let message = match (known, short_flag(&command, name)) {
        (Some(flag), _) => format!("flags require two dashes: use --{flag}"),
        // kubectl accepts `-nshop` and `-ojson`.
        (None, Some(short)) => {
            format!("unknown flag -{name}: write a space between -{short} and its value")
        }
        (None, None) => {
            format!("unknown flag -{name}: flags require two dashes, and there is no --{name}")
        }
    };
    Err(command.error(ErrorKind::UnknownArgument, message))
}

/// Returns the first character of `name` if it is a short flag that takes a value.
fn short_flag(command: &Command, name: &str) -> Option<char> {
    let first = name.chars().next()?;
    let mut flags = command.get_subcommands().flat_map(Command::get_arguments);
    let takes_value =
        |flag: &Arg| flag.get_short() == Some(first) && flag.get_action().takes_values();
    flags.any(takes_value).then_some(first)
}

/// Returns the name of a flag with a single dash, without its value; none if at most one character
/// follows the dash.
fn single_dashed(argument: &OsStr) -> Option<&str> {
    let flag = argument.to_str()?.strip_prefix('-')?;
    let name = flag.split('=').next()?;
    let long = flag.chars().nth(1).is_some() && !flag.starts_with('-');
    long.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_flags_with_a_single_dash_are_recognized() {
        for (argument, expected) in [
            ("-controller-id", Some("controller-id")),
            (
                "-disable-automatic-association=true",
                Some("disable-automatic-association"),
            ),
            ("-v=5", Some("v")),
            ("--controller-id", None),
            ("--controller-id=-x", None),
            ("-h", None),
            ("-", None),
            ("--", None),
            ("run", None),
            ("a-b", None),
        ] {
            assert_eq!(single_dashed(OsStr::new(argument)), expected, "{argument}");
        }
    }
}
