//! The sections of the pages of components, lists of all components, output
//! formats, and the list of log messages.

use crate::root;
use serde_json::Value;
use std::{fs, path::Path};
use volume_warden::{cli, components};

#[test]
fn every_page_of_a_component_has_the_same_sections() {
    let pages = fs::read_dir(root().join("docs/components")).expect("a directory");
    let pages: Vec<_> = pages.flatten().map(|entry| entry.path()).collect();
    assert_eq!(pages.len(), components::ALL.len());
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        for section in [
            "First use",
            "Trigger",
            "Rule",
            "Effect",
            "Events",
            "Metrics",
            "Flags",
            "What it never does",
        ] {
            let found = text.contains(&format!("\n## {section}\n"));
            assert!(found, "{} has no section {section}", page.display());
        }
    }
}

#[test]
fn the_form_for_bugs_and_the_page_of_helm_name_every_component() {
    let names: Vec<_> = components::ALL.iter().map(|each| each.name()).collect();
    let form = include_str!("../../.github/ISSUE_TEMPLATE/bug.yaml");
    let form: Value = serde_saphyr::from_str(form).expect("YAML");
    let fields = form["body"].as_array().expect("fields");
    let field = fields.iter().find(|field| field["id"] == "component");
    let options = field.expect("a field")["attributes"]["options"].as_array();
    let options = options.expect("options");
    assert_eq!(options[..names.len()], names);

    // What onlyProtection leaves out.
    let quoted = names[3..].iter().map(|name| format!("`{name}`"));
    let quoted: Vec<_> = quoted.collect();
    let (last, others) = quoted.split_last().expect("components");
    let sentence = format!("{} and {last} are then left out", others.join(", "));
    let page = include_str!("../../docs/install/helm.md");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(&sentence), "{sentence}");
}

/// The formats for programs. The others are for people.
#[test]
fn the_page_about_compatibility_names_every_output_format() {
    let page = include_str!("../../docs/compatibility.md");
    let mut count = 0;
    for command in cli::command(components::ALL).get_subcommands() {
        let mut arguments = command.get_arguments();
        let Some(output) = arguments.find(|each| each.get_long() == Some("output")) else {
            continue;
        };
        for format in output.get_possible_values() {
            let format = format.get_name();
            if !["table", "wide", "tree"].contains(&format) {
                let shown = format!("`{} -o {format}`", command.get_name());
                assert!(page.contains(&shown), "{shown}");
                count += 1;
            }
        }
    }
    assert!(count >= 7, "{count} formats");
}

#[test]
fn every_log_message_in_the_list_exists() {
    let page = include_str!("../../docs/operations/logs-and-traces.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let messages: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
    assert!(messages.len() >= 6, "{messages:?}");
    let source = source_without(&[]);
    for message in messages {
        let found = source.contains(&format!("\"{message}\""));
        assert!(found || message == "message", "no log line has {message:?}");
    }
}

/// The sources, without their tests and without these files and folders.
pub fn source_without(left_out: &[&str]) -> String {
    let mut found = String::new();
    collect(&root().join("src"), left_out, &mut found);
    found
}

fn collect(directory: &Path, left_out: &[&str], found: &mut String) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if left_out.iter().any(|each| path.ends_with(each)) {
            continue;
        }
        if path.is_dir() && name != "tests" {
            collect(&path, left_out, found);
        } else if path.is_file() && !name.to_string_lossy().ends_with("tests.rs") {
            let text = fs::read_to_string(path).expect("a source");
            *found += text
                .split("#[cfg(test)]\nmod tests {")
                .next()
                .unwrap_or_default();
        }
    }
}
