//! The lists of causes, of Events and reasons, and of labels and annotations.

use crate::{root, rows};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};
use volume_warden::{causes::Code, components};

#[test]
fn every_cause_is_explained() {
    let page = include_str!("../../docs/why.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeSet<_> = rows.filter_map(|row| row.split('`').next()).collect();
    let known: BTreeSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(documented, known, "left: docs/why.md; right: the code");
}

#[test]
fn every_reason_is_in_the_list() {
    let page = include_str!("../../docs/reference/events.md");
    let source = source();
    let constants = words(&source, "pub mod reasons {", "}");
    // Every refused write has an Event.
    let failures = source.split("OnRefusal::new(\"").skip(1);
    let failures = failures.filter_map(|rest| rest.split('"').next());
    let failures: BTreeSet<String> = failures.map(str::to_owned).collect();
    assert!(constants.len() > 20 && failures.len() > 4);
    let events = rows(page, "Events");
    let others = rows(page, "Reasons that are not Events");
    let known: BTreeSet<_> = events.union(&others).cloned().collect();
    // The reasons of pvc-retention are fates, and Events use three of them.
    let fates = [
        "ConflictingController",
        "PodBlockedByClaim",
        "ScaledDownUnmarked",
    ]
    .map(String::from);
    // No rule of Volume Warden acts on these causes: they only distinguish holders in the metrics.
    let counted = [Code::FinishedPod, Code::ForeignFinalizer].map(|code| code.to_string());
    let of_source = constants.union(&failures).cloned().chain(fates);
    let of_source: BTreeSet<_> = of_source.chain(counted).collect();
    assert_eq!(of_source, known, "left: the sources; right: the page");
    assert!(failures.is_subset(&events), "{failures:?}");
}

/// The tests of the control plane compare that page with the Events that are published.
#[test]
fn the_pages_of_components_give_events_the_same_type_and_objects() {
    let page = include_str!("../../docs/reference/events.md");
    let listed: BTreeMap<_, _> = page.lines().filter_map(event).collect();
    let mut count = 0;
    for entry in fs::read_dir(root().join("docs/components"))
        .expect("a directory")
        .flatten()
    {
        let text = fs::read_to_string(entry.path()).expect("a page");
        for (reason, (event_type, objects)) in text.lines().filter_map(event) {
            let (of_the_list, all) = &listed[reason];
            assert_eq!(event_type, *of_the_list, "{reason}");
            let known = objects.iter().all(|each| all.contains(each));
            assert!(known, "{reason}: {objects:?}, {all:?}");
            count += 1;
        }
    }
    assert!(count > 30, "{count} rows");
}

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

/// The reason of a row, with its type and its objects if it has that column.
fn event(line: &str) -> Option<(&str, (&str, Vec<&str>))> {
    let (reason, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
    let mut cells = rest.split(" | ");
    let event_type = cells
        .next()
        .filter(|cell| ["Normal", "Warning"].contains(cell))?;
    let cells: Vec<_> = cells.collect();
    let objects = cells.len().checked_sub(2).map(|_| cells[0].split(", "));
    Some((
        reason,
        (event_type, objects.into_iter().flatten().collect()),
    ))
}

#[test]
fn every_log_message_in_the_list_exists() {
    let page = include_str!("../../docs/operations/logs-and-traces.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let messages: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
    assert!(messages.len() >= 6, "{messages:?}");
    let source = source();
    for message in messages {
        let found = source.contains(&format!("\"{message}\""));
        assert!(found || message == "message", "no log line has {message:?}");
    }
}

/// API groups and values, which are neither labels nor annotations nor finalizers.
const OTHER: [&str; 3] = [
    "volume-warden.dev/volume-warden",
    "kubernetes.io/tls",
    "kubernetes.io/no-provisioner",
];

#[test]
fn every_label_and_annotation_is_in_the_list() {
    let page = include_str!("../../docs/reference/labels.md");
    // `why` and the causes also name keys of other programs.
    let others = ["src/why", "src/causes"];
    let source = source_without(&others);
    let literals = source.split('"').filter(|word| is_key(word));
    let literals: BTreeSet<_> = literals.filter(|word| !OTHER.contains(word)).collect();
    assert!(literals.len() > 15, "{literals:?}");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let listed: BTreeSet<_> = rows.filter_map(|row| row.split('`').next()).collect();
    assert_eq!(literals, listed, "left: the sources; right: the page");
}

/// Whether the text is a label, an annotation or a finalizer, or a prefix of such.
fn is_key(text: &str) -> bool {
    let Some((domain, name)) = text.split_once('/') else {
        return false;
    };
    let of_an_api = domain.ends_with(".k8s.io") && name.starts_with('v');
    let allowed = |text: &str| {
        text.bytes()
            .all(|each| each.is_ascii_alphanumeric() || b".-".contains(&each))
    };
    let known = ["kubernetes.io", ".dev", "releaser"]
        .iter()
        .any(|end| domain.ends_with(end));
    known && !of_an_api && allowed(domain) && allowed(name)
}

/// The sources, without their tests.
fn source() -> String {
    source_without(&[])
}

fn source_without(left_out: &[&str]) -> String {
    let mut found = String::new();
    collect(&root().join("src"), left_out, &mut found);
    found
}

fn collect(directory: &Path, left_out: &[&str], found: &mut String) {
    if left_out.iter().any(|each| directory.ends_with(each)) {
        return;
    }
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
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

/// The first word in double quotes of each line of the block that follows `head`, up to a line
/// that equals `end`.
fn words(source: &str, head: &str, end: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for block in source.split(head).skip(1) {
        let lines = block.lines().take_while(|line| *line != end);
        let quoted = lines.filter_map(|line| Some(line.split('"').nth(1)?.to_owned()));
        words.extend(quoted);
    }
    words
}
