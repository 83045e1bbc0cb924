//! The recording of the demo shows all of its stories, and nothing of the machine that made it.
//! `release/record` makes it.

use crate::root;
use std::{collections::BTreeSet, fs};

const RECORDING: &str = include_str!("../../docs/demo.svg");

#[test]
fn it_has_the_titles_of_all_stories() {
    let mut titles = BTreeSet::new();
    for entry in fs::read_dir(root().join("examples/demo")).expect("the demo") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|each| each == "rs") {
            let text = fs::read_to_string(path).expect("a source");
            let found = text.split("title(\"").skip(1);
            titles.extend(found.filter_map(|rest| Some(rest.split('"').next()?.to_owned())));
        }
    }
    assert!(titles.len() >= 6, "{titles:?}");
    for title in titles {
        assert!(
            RECORDING.contains(&format!(">==== {title}<")),
            "run release/record: docs/demo.svg has no {title}"
        );
    }
}

#[test]
fn it_is_one_file_without_paths_of_a_machine() {
    for place in ["/tmp/", "/home/", "/Users/", "/.cache/", "url(", "href"] {
        assert!(!RECORDING.contains(place), "{place}");
    }
    for address in RECORDING.split("127.0.0.1:").skip(1) {
        assert!(address.starts_with("6443"), "{address:.20}");
    }
    assert!(RECORDING.len() < 200_000, "{} bytes", RECORDING.len());
}
