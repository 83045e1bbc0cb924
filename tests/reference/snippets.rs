//! The commands that the documentation shows: `volume-warden` understands them, and what `cargo`
//! is to run exists. `tests/operations/documentation` runs those of `kubectl` and `helm`.

use crate::{pages, root};
use clap::error::ErrorKind;
use std::fs;
use volume_warden::{cli, components};

#[test]
fn every_command_of_volume_warden_is_understood() {
    let mut count = 0;
    for command in commands("volume-warden ") {
        let command = command.split(" > ").next().unwrap_or_default();
        let words = command.split(" | ").next().unwrap_or_default();
        let known = cli::command(components::ALL);
        if let Err(error) = known.try_get_matches_from(words.split_whitespace()) {
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
            let directory = match pair[0] {
                "--test" => "tests",
                "--bench" => "benches",
                _ => continue,
            };
            let (file, folder) = (format!("{}.rs", pair[1]), format!("{}/main.rs", pair[1]));
            let directory = root().join(directory);
            let exists = directory.join(file).exists() || directory.join(folder).exists();
            assert!(exists, "{command}");
            count += 1;
        }
    }
    assert!(count > 5, "{count} targets");
}

/// The commands in code blocks and in backquotes that begin with this. A synopsis with
/// alternatives or optional parts is none.
fn commands(program: &str) -> Vec<String> {
    let mut found = Vec::new();
    for page in pages() {
        // What earlier versions offered may be gone.
        if page.ends_with("CHANGELOG.md") {
            continue;
        }
        let text = fs::read_to_string(&page).expect("a page");
        let text = text.replace("\\\n", " ");
        let lines = text
            .lines()
            .map(|line| line.trim().trim_start_matches("$ "));
        let lines = lines
            .filter(|line| line.starts_with(program))
            .map(str::to_owned);
        let prose: String = text.split("```").step_by(2).collect();
        let quoted = prose.split('`').skip(1).step_by(2);
        let quoted = quoted.map(|each| each.split_whitespace().collect::<Vec<_>>().join(" "));
        let quoted = quoted.filter(|each| each.starts_with(program));
        let all = lines.filter(|line| !line.contains('`')).chain(quoted);
        let all = all.map(|each| {
            each.split("  #")
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        });
        found.extend(all.filter(|each| !each.contains(['…', '[']) && !each.contains("COMMAND")));
    }
    found.retain(|each| !each.contains('|') || each.contains(" | "));
    found
}
