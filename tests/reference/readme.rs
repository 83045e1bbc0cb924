//! README stays short, and shows parts of the examples. `tests/operations/documentation` applies
//! the examples, runs the commands and compares the transcript.

use crate::root;
use serde_json::Value;
use std::fs;

const README: &str = include_str!("../../README.md");

#[test]
fn it_is_short() {
    assert!(README.lines().count() <= 180, "lines");
    assert!(README.len() <= 12 * 1024, "bytes");
}

#[test]
fn the_first_screen_says_what_it_does_for_whom_and_what_it_never_does() {
    let first: Vec<_> = README.lines().take(40).collect();
    let first = first.join("\n");
    for part in [
        "for administrators of Kubernetes clusters",
        "$ volume-warden why pvc",
        "cargo demo",
        "C compiler",
        "minutes",
        "## Is this for you?",
        "## What it never does",
        "never deletes a volume",
    ] {
        assert!(first.contains(part), "no {part}");
    }
}

#[test]
fn each_pain_has_a_command_or_a_field_that_ends_it() {
    let section = README.split("## Is this for you?").nth(1);
    let section = section.and_then(|rest| rest.split("## ").next());
    let pains = section.expect("a section").split("\n- ").skip(1);
    let pains: Vec<_> = pains.collect();
    assert_eq!(pains.len(), 5, "{pains:?}");
    for pain in pains {
        let (_, remedy) = pain.split_once(": ").expect("a remedy");
        assert!(remedy.contains('`'), "{pain}");
        // Without the other annotation, a template has no effect.
        let both = [".pvc`", ".enabled:"].map(|end| remedy.contains(end));
        assert_eq!(both[0], both[1], "{pain}");
    }
}

/// The example contains a fragment if one of its objects has all fields of the fragment. A template
/// in an annotation is compared as YAML.
#[test]
fn each_fragment_is_a_part_of_an_example() {
    let (mut examples, mut count) = (Vec::new(), 0);
    for entry in fs::read_dir(root().join("examples")).expect("the examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|each| each == "yaml") {
            let text = fs::read_to_string(path).expect("an example");
            let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
            examples.extend(objects);
        }
    }
    for fragment in README.split("```yaml\n").skip(1) {
        // A block in a list is indented, and so is its end.
        let fragment = fragment.split("```").next().unwrap_or_default().trim_end();
        let part: Value = serde_saphyr::from_str(fragment).expect("YAML");
        let shown = examples.iter().any(|example| contains(example, &part));
        assert!(shown, "{fragment}");
        count += 1;
    }
    assert!(count >= 3, "{count} fragments");
}

fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part.iter().all(|(key, value)| {
            let found = whole.get(key);
            found.is_some_and(|found| contains(found, value))
        }),
        (Value::String(whole), Value::String(part)) if part.contains("apiVersion:") => {
            let [whole, part]: [Value; 2] =
                [whole, part].map(|text| serde_saphyr::from_str(text).expect("a template"));
            whole == part
        }
        _ => whole == part,
    }
}
