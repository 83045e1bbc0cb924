//! The commands that the documentation shows: `volume-warden` understands them, and what `cargo`
//! is to run exists. `tests/operations/documentation/executed` runs those of `kubectl`, `helm` and
//! `volume-warden`, or says why not. A table says how the other programs are checked, or why they
//! are not.

use crate::{
    documentation::{self, Shown, pages, shown},
    root,
};
use clap::error::ErrorKind;
use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, path::Path};
use volume_warden::{cli, components};

/// Where the commands of a program are checked, or why they are not.
enum Check {
    /// A test, which names the program.
    In(&'static str),
    /// The program is a script of this repository.
    Script,
    Not(&'static str),
}

/// Every program that a code block runs, and some that only sentences name.
const PROGRAMS: [(&str, Check); 21] = [
    (
        "volume-warden",
        Check::In("tests/operations/documentation/executed/mod.rs"),
    ),
    ("cargo", Check::In("tests/reference/snippets.rs")),
    (
        "kubectl",
        Check::In("tests/operations/documentation/executed/mod.rs"),
    ),
    (
        "helm",
        Check::In("tests/operations/documentation/executed/mod.rs"),
    ),
    ("docker", Check::In("tests/reference/snippets.rs")),
    ("mdbook-mermaid", Check::In("release/book")),
    ("mdbook", Check::In("release/book")),
    (".ci/run", Check::Script),
    ("fuzz/run", Check::Script),
    ("release/book", Check::Script),
    ("release/build", Check::Script),
    ("release/check", Check::Script),
    ("release/diagrams", Check::Script),
    ("release/record", Check::Script),
    ("release/screenshot", Check::Script),
    ("release/sbom", Check::Script),
    ("release/version", Check::Script),
    ("git", Check::Not("the repository is on the network")),
    ("cd", Check::Not("it follows the command of git")),
    ("cosign", Check::Not("it needs a published release")),
    ("gh", Check::Not("it needs a published release")),
];

#[test]
fn every_program_of_a_code_block_is_in_the_table() {
    let listed: BTreeSet<&str> = PROGRAMS.iter().map(|(program, _)| *program).collect();
    assert_eq!(listed.len(), PROGRAMS.len(), "each program once");
    let mut count = 0;
    for Shown { page, command, .. } in shown().into_iter().filter(|each| each.in_block) {
        let program = program(&command);
        // It follows the commands of cosign, and has no other use.
        let known = listed.contains(program) || program == "sha256sum";
        assert!(known, "{}: {command}", page.display());
        count += 1;
    }
    assert!(count > 40, "{count} lines");
}

/// A block in another language would not be looked at.
#[test]
fn every_code_block_has_a_known_language() {
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let fences = text.lines().map(str::trim);
        let fences = fences.filter_map(|line| line.strip_prefix("```"));
        for language in fences.step_by(2) {
            let known = ["mermaid", "sh", "text", "yaml"].contains(&language);
            assert!(known, "{}: {language:?}", page.display());
            count += 1;
        }
    }
    assert!(count > 30, "{count} blocks");
}

#[test]
fn every_row_of_the_table_holds() {
    let shown: Vec<_> = shown().into_iter().map(|each| each.command).collect();
    for (name, check) in PROGRAMS {
        let used = shown.iter().any(|command| program(command) == name);
        assert!(used, "no page runs {name}");
        match check {
            Check::In(place) => {
                let text = fs::read_to_string(root().join(place)).expect(place);
                assert!(text.contains(name), "{place} has no {name}");
            }
            Check::Script => {
                let file = fs::metadata(root().join(name)).expect(name);
                assert!(file.permissions().mode() & 0o111 != 0, "{name}");
            }
            Check::Not(reason) => assert!(!reason.is_empty(), "{name}"),
        }
    }
}

fn commands(program: &str) -> Vec<String> {
    let found = documentation::commands(program).into_iter();
    found.map(|each| each.command).collect()
}

/// The first word that is no variable.
fn program(command: &str) -> &str {
    let is_variable = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default();
        word.contains('=')
            && name
                .bytes()
                .all(|each| each == b'_' || each.is_ascii_uppercase())
    };
    let mut words = command.split(' ').skip_while(is_variable);
    words.next().unwrap_or_default()
}

#[test]
fn every_command_of_volume_warden_is_understood() {
    let mut count = 0;
    let in_a_container = commands("kubectl ").into_iter().filter_map(|command| {
        let (_, inside) = command.split_once(" -- /")?;
        Some(inside.to_owned())
    });
    for command in commands("volume-warden ").into_iter().chain(in_a_container) {
        let command = command.split(" > ").next().unwrap_or_default();
        let words = command.split(" | ").next().unwrap_or_default();
        let known = cli::command(components::ALL);
        // The shell removes quotes.
        let words = words.split_whitespace().map(|word| word.trim_matches('\''));
        if let Err(error) = known.try_get_matches_from(words) {
            // A text may name a command without its arguments.
            let incomplete = error.kind() == ErrorKind::MissingRequiredArgument;
            assert!(incomplete || !error.use_stderr(), "{command}: {error}");
        }
        count += 1;
    }
    assert!(count > 20, "{count} commands");
}

#[test]
fn every_target_of_cargo_exists() {
    let mut count = 0;
    for command in commands("cargo ") {
        let words: Vec<_> = command.split_whitespace().collect();
        for pair in words.windows(2) {
            let (directory, name) = match pair[0] {
                "--test" => ("tests", pair[1]),
                "--bench" => ("benches", pair[1]),
                "--bin" => ("sim/src/bin", pair[1]),
                "-p" => ("sim", pair[1].trim_start_matches("volume-warden-sim")),
                _ => continue,
            };
            let path = root().join(directory);
            let files = [format!("{name}.rs"), format!("{name}/main.rs"), name.into()];
            let exists = files.iter().any(|file| path.join(file).exists());
            assert!(exists, "{command}");
            count += 1;
        }
    }
    assert!(count > 10, "{count} targets");
}

/// Cargo runs no test, and succeeds, if none has the name.
#[test]
fn every_filter_of_cargo_names_a_test() {
    let mut count = 0;
    for command in commands("cargo test ") {
        let words: Vec<_> = command.split(' ').skip(2).collect();
        let Some(at) = words.iter().position(|word| *word == "--test") else {
            continue;
        };
        let source = sources(&root().join("tests").join(words[at + 1]));
        // NAME stands for any test.
        let filters = words[at + 2..]
            .iter()
            .filter(|word| word.starts_with(|first: char| first.is_ascii_lowercase()));
        for part in filters.flat_map(|filter| filter.split("::")) {
            let mut lines = source.lines();
            let named = lines
                .any(|line| (line.contains("fn ") || line.contains("mod ")) && line.contains(part));
            assert!(named, "{command}: nothing is called {part}");
            count += 1;
        }
    }
    assert!(count >= 5, "{count} names");
}

/// All Rust files below a folder.
fn sources(folder: &Path) -> String {
    let mut found = String::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found += &fs::read_to_string(path).expect("a source");
        }
    }
    found
}

/// Neither docker nor podman is needed for the tests: the file that the command names exists, and
/// has the arguments that the command sets.
#[test]
fn the_image_has_the_arguments_that_docker_sets() {
    let built = commands("docker build ");
    assert_eq!(built.len(), 1, "{built:?}");
    let words: Vec<_> = built[0].split(' ').collect();
    let values = |flag: &str| {
        let pairs = words.windows(2).filter(move |pair| pair[0] == flag);
        pairs.map(|pair| pair[1]).collect::<Vec<_>>()
    };
    let files = values("-f");
    let file = fs::read_to_string(root().join(files[0])).expect("the file of the image");
    let arguments = values("--build-arg");
    assert_eq!(arguments.len(), 1, "{words:?}");
    for argument in arguments {
        let name = argument.split('=').next().unwrap_or_default();
        let declared = file.lines().any(|line| {
            let rest = line.strip_prefix("ARG ").unwrap_or_default();
            rest.split('=').next() == Some(name)
        });
        assert!(declared, "{name}");
    }
    assert_eq!(words.last(), Some(&"."));
}
