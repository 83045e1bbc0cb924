//! README names every flag and every metric, docs/events.md every reason, and neither names one
//! that does not exist.

use std::{collections::BTreeSet, fs, path::Path, process::Command, sync::Arc, time::Duration};
use volume_warden::{
    causes::{Code, FinishedPods},
    cluster::Feeds,
    components::{
        namespace_gc::GcMetrics, pv_protection, pv_releaser, pvc_protection, pvc_provisioner,
        pvc_retention,
    },
    objects::{ControllerId, Kind},
    telemetry::Metrics,
};

const README: &str = include_str!("../README.md");

/// Words of README in backquotes that begin with `prefix`, without labels and suffixes.
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
        // README shows an optional value in brackets.
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
    let documented: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
    let known: BTreeSet<String> = Code::ALL.iter().map(Code::to_string).collect();
    let documented: BTreeSet<String> = documented.into_iter().map(str::to_owned).collect();
    assert_eq!(documented, known);
}

/// The metrics text omits a family without a series.
fn with_every_series() -> Arc<Metrics> {
    let metrics = Arc::new(Metrics::new());
    metrics.work.acted("c", "a", "r", "o");
    metrics.work.reconciled("c", Duration::ZERO, true);
    metrics.work.queue_depth("c", 0);
    metrics.feeds.begun(Kind::Pod);
    metrics.feeds.age(Kind::Pod, Duration::ZERO);
    metrics.feeds.live_listed(Kind::Pod);
    metrics.feeds.live_read(Kind::Pod);
    metrics.certificate.validity("c", Some((0, 0)));
    metrics.admission.reviewed("/p", "v", Duration::ZERO);
    metrics.admission.stranger_left("o");
    let feeds = Feeds::new(&metrics);
    let (claims, pods) = (feeds.claims.clone(), feeds.pods.clone());
    pvc_protection::register_metrics(&metrics, claims, pods, FinishedPods::Hold);
    pv_protection::register_metrics(&metrics, feeds.volumes.clone());
    pvc_retention::register_metrics(&metrics, pvc_retention::Caches::from(&feeds));
    let known = pvc_provisioner::Caches::from(&feeds);
    pvc_provisioner::register_metrics(&metrics, known, ControllerId::default());
    let known = pv_releaser::Caches::new(&feeds, None, pv_releaser::Options::default());
    pv_releaser::register_metrics(&metrics, known);
    let gc = GcMetrics::new(&metrics);
    gc.called("o", "o", Duration::ZERO);
    gc.waiting("r", 0, Duration::ZERO);
    gc.ran("o");
    gc.verdict("v", 0);
    gc.seen(0, 0);
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
    let served: BTreeSet<_> = names
        .iter()
        .filter(|name| name.starts_with("volume_warden_"))
        .cloned()
        .collect();
    assert_eq!(served, known, "left: the program; right: the README");
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
    let failures = source.split("OnRefusal::new(\"").skip(1);
    let failures = failures.filter_map(|rest| rest.split('"').next());
    let failures: BTreeSet<String> = failures.map(str::to_owned).collect();
    assert!(constants.len() > 20 && failures.len() > 4);
    let events = rows(&page, "Events");
    let others = rows(&page, "Reasons that are not Events");
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
    assert_eq!(of_source, known, "left: the sources; right: docs/events.md");
    assert!(failures.is_subset(&events), "{failures:?}");
}
