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
    &[
        "awaited",
        "clock",
        "columns",
        "go_duration",
        "hashing",
        "listener",
        "plain",
        "version",
    ],
    &["objects"],
    &["causes"],
    &["telemetry"],
    &["cluster"],
    &["tls"],
    &["admission", "backend"],
    &["component"],
    &["components::*"],
    &["components"],
    &["assembly", "drain", "unused", "why"],
    &["report"],
    &["cli"],
];

/// The folder that the order of layers applies to: each component has its own.
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

#[test]
fn layers_depend_only_on_those_below() {
    let mut wrong = BTreeSet::new();
    for (from, to) in graph().edges() {
        let (user, used) = (unit(from), unit(to));
        if user != used && layer(user) <= layer(used) {
            wrong.insert(format!("{} uses {}", from.join("::"), to.join("::")));
        }
    }
    assert!(
        wrong.is_empty(),
        "against the order of the layers: {wrong:#?}"
    );
}

#[test]
fn no_files_depend_on_each_other_in_a_circle() {
    let circles = graph().circles();
    assert!(circles.is_empty(), "circles of files: {circles:#?}");
}

#[test]
fn no_folders_depend_on_each_other_in_a_circle() {
    let circles = graph().folders().circles();
    assert!(circles.is_empty(), "circles of folders: {circles:#?}");
}
