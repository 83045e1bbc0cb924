//! The sections of the pages of components, and the list of log messages.

use crate::root;
use std::{fs, path::Path};
use volume_warden::components;

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
