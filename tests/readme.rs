//! The README names every flag and every metric, docs/events.md every reason, and none that is not there.

use std::{collections::BTreeSet, fs, path::Path, process::Command, time::Duration};
use volume_warden::{objects::Kind, telemetry::Metrics, why::Code};

const README: &str = include_str!("../README.md");

/// Words of the README in back quotes that begin with `prefix`, without labels and suffixes.
fn quoted(prefix: &str) -> BTreeSet<String> {
    let words = README.split('`').skip(1).step_by(2);
    let names = words
        .flat_map(|words| words.split_whitespace())
        .filter(|word| word.starts_with(prefix));
    names
        .map(|word| word.split(['=', '{']).next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn every_flag_of_run_is_in_the_table() {
    let help = Command::new(env!("CARGO_BIN_EXE_volume-warden"))
        .args(["run", "--help"])
        .output()
        .expect("help");
    let help = String::from_utf8(help.stdout).expect("text");
    let flags = help
        .split_whitespace()
        .filter(|word| word.starts_with("--"))
        // A value that may be left out is shown in brackets.
        .map(|flag| flag.split('[').next().unwrap_or_default())
        .map(|flag| flag.trim_end_matches([',', ';', '.']));
    let table: BTreeSet<_> = README
        .lines()
        .filter(|line| line.starts_with("| `--"))
        .flat_map(|line| line.split('`'))
        .collect();
    let missing: Vec<_> = flags
        .filter(|flag| *flag != "--help" && !table.contains(flag))
        .collect();
    assert!(
        missing.is_empty() && help.contains("--components"),
        "not in the README's table: {missing:?}"
    );
    let unknown: Vec<_> = table
        .iter()
        .filter(|flag| flag.starts_with("--") && !help.contains(**flag))
        .collect();
    assert!(unknown.is_empty(), "in the table, but no flag: {unknown:?}");
}

/// `docs/why.md` has a row for each cause.
#[test]
fn every_cause_is_explained() {
    let page = include_str!("../docs/why.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let told: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
    let known: BTreeSet<String> = Code::ALL.iter().map(Code::to_string).collect();
    let told: BTreeSet<String> = told.into_iter().map(str::to_owned).collect();
    assert_eq!(told, known);
}

/// A family without a series is not in the text.
fn with_every_series() -> Metrics {
    let metrics = Metrics::new();
    metrics.acted("c", "a", "r", "o");
    metrics.reconciled("c", Duration::ZERO, true);
    metrics.queue_depth("c", 0);
    metrics.feed_begun(Kind::Pod);
    metrics.feed_age(Kind::Pod, Duration::ZERO);
    metrics.claims_held("r", &[], 0);
    metrics.volumes_held("r", &[], 0);
    metrics.released_volumes("f", 0);
    metrics.live_listed(Kind::Pod);
    metrics.live_read(Kind::Pod);
    metrics.sets("p", "p", 0);
    metrics.claims("f", 0);
    metrics.certificate("c", Some((0, 0)));
    metrics.reviewed("/p", "v", Duration::ZERO);
    metrics.stranger_left("o");
    let backend = &metrics.backend;
    backend.called("o", "o", Duration::ZERO);
    backend.waiting("r", 0, Duration::ZERO);
    backend.ran("o");
    backend.verdict("v", 0);
    backend.seen(0, 0);
    metrics
}

#[test]
fn every_metric_is_in_the_readme() {
    let text = with_every_series().text();
    let described = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split_once(' '));
    let names: BTreeSet<String> = described
        .map(|(name, kind)| match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        })
        .collect();
    let known = quoted("volume_warden_");
    let ours: BTreeSet<_> = names
        .iter()
        .filter(|name| name.starts_with("volume_warden_"))
        .cloned()
        .collect();
    assert_eq!(ours, known, "left: the program; right: the README");
}

/// The sources, without their tests.
fn sources(directory: &Path, found: &mut String) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if path.is_file() && !name.to_string_lossy().ends_with("tests.rs") {
            let text = fs::read_to_string(path).expect("a source");
            *found += text
                .split("#[cfg(test)]\nmod tests {")
                .next()
                .unwrap_or_default();
        }
    }
}

/// The first word in double quotes of each line of the block that follows `head`, up to a line that is only `end`.
fn words(source: &str, head: &str, end: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for block in source.split(head).skip(1) {
        let lines = block.lines().take_while(|line| *line != end);
        let quoted = lines.filter_map(|line| Some(line.split('"').nth(1)?.to_owned()));
        words.extend(quoted);
    }
    words
}

/// The first cell of each row below that heading.
fn rows(page: &str, heading: &str) -> BTreeSet<String> {
    let section = page
        .split("\n## ")
        .find(|section| section.starts_with(heading));
    let lines = section.expect("a section").lines();
    let cells = lines.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    cells.map(str::to_owned).collect()
}

#[test]
fn every_reason_is_in_the_list() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/events.md")).expect("the page");
    let mut source = String::new();
    sources(&root.join("src"), &mut source);
    let constants = words(&source, "pub mod reasons {", "}");
    // Every refused write has an Event.
    let failures = words(&source, "fn failure(&self)", "    }");
    assert!(constants.len() > 20 && failures.len() > 4);
    let events = rows(&page, "Events");
    let others = rows(&page, "Reasons that are no Events");
    let known: BTreeSet<_> = events.union(&others).cloned().collect();
    // Those of pvc-retention are fates, of which it tells three.
    let told = ["ConflictingController", "ClaimStale", "ClaimKept"].map(String::from);
    // Causes that no rule of ours acts by: they only tell holders apart in the metrics.
    let counted = [Code::FinishedPod, Code::ForeignFinalizer].map(|code| code.to_string());
    let of_source = constants.union(&failures).cloned().chain(told);
    let of_source: BTreeSet<_> = of_source.chain(counted).collect();
    assert_eq!(of_source, known, "left: the sources; right: docs/events.md");
    assert!(failures.is_subset(&events), "{failures:?}");
}
