//! The order of the layers in `src/`, and the absence of dependency cycles among files or folders.
//! Both are read from the `use` lines; tests inside `src/` are excluded.

mod graph;
mod imports;

use graph::Graph;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The layers, from the bottom up. An entry may use the rows above it in this table, and not the
/// other entries of its row.
const LAYERS: &[&[&str]] = &[
    &["hashing"],
    &[
        "awaited",
        "clock",
        "columns",
        "go_duration",
        "listener",
        "plain",
        "reason",
        "version",
    ],
    &["objects"],
    &["causes"],
    &["telemetry"],
    &["cluster"],
    &["inventory"],
    &["tls"],
    &["admission", "backend"],
    &["component"],
    &["installation"],
    &["components::*"],
    &["components"],
    &["assembly", "drain", "unused", "why"],
    &["report"],
    &["cli"],
];

/// The folder that the order of layers applies to. Each component is a folder of its own.
fn unit(module: &[String]) -> &[String] {
    match module {
        [components, component, ..] if components == "components" && component != "mod" => {
            &module[..2]
        }
        _ => &module[..module.len().min(1)],
    }
}

fn layer(unit: &[String]) -> usize {
    let name = match unit {
        [_, _] => "components::*",
        _ => unit[0].as_str(),
    };
    let found = LAYERS.iter().position(|layer| layer.contains(&name));
    assert!(
        found.is_some(),
        "src/{name} is in no layer: add it to LAYERS"
    );
    found.unwrap_or_default()
}

/// All source files below `folder` that are not tests, relative to it.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let stem = path.file_stem().expect("a name").to_string_lossy();
            if stem == "tests" || stem.ends_with("_tests") || stem.starts_with("test_") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn graph() -> Graph {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = sources(&root).into_iter().map(|path| {
        let text = fs::read_to_string(&path).expect("a text");
        let module = imports::module_of(path.strip_prefix(&root).expect("below src"));
        (module, text)
    });
    Graph::new(files.collect())
}

/// The uses that `LAYERS` forbids: of another entry of the same row, or of a row below it.
fn upwards(graph: &Graph) -> BTreeSet<String> {
    let wrong = graph.edges().filter(|(from, to)| {
        let (user, used) = (unit(from), unit(to));
        user != used && layer(user) <= layer(used)
    });
    let wrong = wrong.map(|(from, to)| format!("{} uses {}", from.join("::"), to.join("::")));
    wrong.collect()
}

#[test]
fn a_use_of_a_higher_or_the_same_layer_is_found() {
    let files = [
        ("objects::claim", ""),
        ("causes::code", "use crate::objects::Claim;"),
        ("cluster::lease", "use crate::cli::run;\nuse super::watch;"),
        ("cluster::watch", ""),
        ("cli::run", "use crate::cluster::Lease;"),
        ("components::pv_releaser::rule", ""),
        (
            "components::pvc_trash::rule",
            "use crate::components::pv_releaser::rule::decide;",
        ),
    ];
    let files = files.map(|(module, text)| {
        let module = module.split("::").map(str::to_owned).collect();
        (module, text.to_owned())
    });
    let found: Vec<_> = upwards(&Graph::new(files.into())).into_iter().collect();
    let expected = [
        "cluster::lease uses cli::run",
        "components::pvc_trash::rule uses components::pv_releaser::rule",
    ];
    assert_eq!(found, expected);
}

#[test]
fn layers_depend_only_on_those_below() {
    let wrong = upwards(&graph());
    assert!(
        wrong.is_empty(),
        "against the order of the layers: {wrong:#?}"
    );
}

#[test]
fn no_files_depend_on_each_other_in_a_circle() {
    let circles = graph().circles();
    assert!(circles.is_empty(), "cycles of files: {circles:#?}");
}

#[test]
fn no_folders_depend_on_each_other_in_a_circle() {
    let circles = graph().folders().circles();
    assert!(circles.is_empty(), "cycles of folders: {circles:#?}");
}

/// rustfmt limits the lines of code, but not those of comments.
#[test]
fn no_line_of_a_comment_is_longer_than_100_characters() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["src", "tests", "sim", "benches", "examples", "fuzz/targets"];
    let files = folders
        .iter()
        .flat_map(|folder| sources(&root.join(folder)));
    let long = files.flat_map(|path| {
        let text = fs::read_to_string(&path).expect("a text");
        let numbered = text.lines().zip(1..);
        let is_long =
            |line: &str| line.trim_start().starts_with("//") && line.chars().count() > 100;
        let long = numbered.filter(|(line, _)| is_long(line));
        let long = long.map(|(_, number)| format!("{}:{number}", path.display()));
        long.collect::<Vec<_>>()
    });
    assert_eq!(long.collect::<Vec<_>>(), Vec::<String>::new());
}
