//! The image has one name in the documentation, the manifests and the chart: that in
//! `release/image`, with the version of the package, which is that of no earlier release.

use crate::root;
use std::{fs, path::Path};
use volume_warden::version::VERSION;

#[test]
fn the_image_has_one_name() {
    let image = fs::read_to_string(root().join("release/image")).expect("the name");
    let image = format!("{}:{VERSION}", image.trim());
    let mut texts = Vec::new();
    for place in ["docs", "manifests", "README.md"] {
        collect(&root().join(place), &mut texts);
    }
    let mut count = 0;
    for (path, text) in texts {
        for (line, found) in text.lines().flat_map(|line| {
            let images = images(line).into_iter();
            images.map(move |found| (line, found))
        }) {
            // An image that the reader builds is of the same version.
            let expected = match found.strip_prefix("REGISTRY/") {
                Some(_) => format!("REGISTRY/volume-warden:{VERSION}"),
                None => image.clone(),
            };
            assert_eq!(found, expected, "{path}: {line}");
            count += 1;
        }
    }
    assert!(count >= 5, "{count} images");
}

/// With the version of a release, nodes that have its image would start the old program with the
/// new manifests: `imagePullPolicy` is `IfNotPresent`.
#[test]
fn a_released_version_is_not_used_again() {
    let changes = fs::read_to_string(root().join("CHANGELOG.md")).expect("the changelog");
    let has = |heading: &str| changes.lines().any(|line| line.starts_with(heading));
    assert!(
        !(has("## Unreleased") && has(&format!("## {VERSION} - "))),
        "{VERSION} is released: set the next version"
    );
}

#[test]
fn an_image_is_found_with_its_registry() {
    let line =
        "Use `volume-warden:1.2.3`, not example.com:5000/a/volume-warden:0.9 of volume-warden:";
    let found = images(line);
    assert_eq!(
        found,
        [
            "volume-warden:1.2.3",
            "example.com:5000/a/volume-warden:0.9"
        ]
    );
}

/// The names of images of Volume Warden that have a version.
fn images(line: &str) -> Vec<&str> {
    let words = line.split(|each: char| !each.is_ascii_alphanumeric() && !"./:-_".contains(each));
    let images = words.filter(|word| {
        let version = word.rsplit_once("volume-warden:").map(|(_, tag)| tag);
        version.is_some_and(|tag| tag.starts_with(|each: char| each.is_ascii_digit()))
    });
    images.map(|image| image.trim_end_matches('.')).collect()
}

/// Adds the texts of the file or of all files below the directory.
pub fn collect(path: &Path, texts: &mut Vec<(String, String)>) {
    if let Ok(entries) = fs::read_dir(path) {
        for entry in entries.flatten() {
            collect(&entry.path(), texts);
        }
    } else if let Ok(text) = fs::read_to_string(path) {
        texts.push((path.display().to_string(), text));
    }
}
