//! The image has one name in the documentation, the manifests and the chart: that in
//! `release/image`, with the version of the package.

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
            // An image that the reader builds.
            if !found.starts_with("REGISTRY/") {
                assert_eq!(found, image, "{path}: {line}");
                count += 1;
            }
        }
    }
    assert!(count >= 5, "{count} images");
}

#[test]
fn an_image_is_found_with_its_registry() {
    let line =
        "Use `volume-warden:0.1.0`, not example.com:5000/a/volume-warden:0.2 of volume-warden:";
    let found = images(line);
    assert_eq!(
        found,
        [
            "volume-warden:0.1.0",
            "example.com:5000/a/volume-warden:0.2"
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
