//! The krew manifest follows krew's rules, and names the archives that the release builds.
//! `release/dry-run` checks its checksums, and runs krew's validator.

use crate::root;
use serde_json::Value;
use std::{collections::BTreeSet, fs};

#[test]
fn the_manifest_is_valid() {
    let manifest = manifest();
    assert_eq!(
        manifest["apiVersion"],
        "krew.googlecontainertools.github.com/v1alpha2"
    );
    assert_eq!(manifest["kind"], "Plugin");
    // kubectl runs the plugin kubectl-volume_warden as `kubectl volume-warden`.
    assert_eq!(manifest["metadata"]["name"], "volume-warden");
    let spec = manifest["spec"].as_object().expect("a spec");
    let known = [
        "version",
        "homepage",
        "shortDescription",
        "description",
        "caveats",
        "platforms",
    ];
    for key in spec.keys() {
        assert!(known.contains(&key.as_str()), "{key}");
    }
    assert_eq!(spec["version"], "vVERSION");
    let short = spec["shortDescription"].as_str().expect("a description");
    assert!(
        (1..=50).contains(&short.len()) && !short.ends_with('.'),
        "{short}"
    );
    // With krew, the command has no other name.
    let caveats = spec["caveats"].as_str().expect("caveats");
    assert!(caveats.contains("kubectl volume-warden"), "{caveats}");
    for platform in spec["platforms"].as_array().expect("platforms") {
        let [target, archive] = target_and_archive(platform);
        let labels = &platform["selector"]["matchLabels"];
        let text = |key: &str| labels[key].as_str().expect("a label").to_owned();
        assert_eq!(
            target,
            format!("{}-{}", text("os"), text("arch")),
            "{archive}"
        );
        assert_eq!(platform["sha256"], format!("SHA256-{target}"));
        let suffix = if target.starts_with("windows") {
            ".exe"
        } else {
            ""
        };
        assert_eq!(platform["bin"], format!("volume-warden{suffix}"));
    }
}

#[test]
fn its_platforms_are_those_that_the_release_builds() {
    let manifest = manifest();
    let platforms = manifest["spec"]["platforms"].as_array().expect("platforms");
    let listed: BTreeSet<_> = platforms
        .iter()
        .map(|platform| target_and_archive(platform)[0].clone())
        .collect();
    let workflow = fs::read_to_string(root().join(".github/workflows/release.yaml"));
    let workflow: Value = serde_saphyr::from_str(&workflow.expect("the workflow")).expect("YAML");
    let matrix = &workflow["jobs"]["archive"]["strategy"]["matrix"]["include"];
    let built = matrix.as_array().expect("a matrix").iter();
    let built: BTreeSet<_> = built
        .map(|each| each["target"].as_str().expect("a target").to_owned())
        .collect();
    assert_eq!(listed, built, "left: krew.yaml; right: release.yaml");
}

fn manifest() -> Value {
    let text = fs::read_to_string(root().join("release/krew.yaml")).expect("the manifest");
    serde_saphyr::from_str(&text).expect("YAML")
}

/// The target of the archive that the platform names, and the name of the archive.
fn target_and_archive(platform: &Value) -> [String; 2] {
    let uri = platform["uri"].as_str().expect("a URI");
    let (place, archive) = uri.rsplit_once('/').expect("a path");
    assert_eq!(
        place,
        "https://github.com/REPOSITORY/releases/download/vVERSION"
    );
    let rest = archive.strip_prefix("volume-warden-VERSION-");
    let (target, format) = rest.and_then(|rest| rest.split_once('.')).expect(archive);
    let expected = if target.starts_with("windows") {
        "zip"
    } else {
        "tar.gz"
    };
    assert_eq!(format, expected, "{archive}");
    [target.to_owned(), archive.to_owned()]
}
