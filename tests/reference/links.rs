//! Relative links, addresses of this repository on its host, and their anchors.

use crate::{
    documentation::{own_addresses, pages, problem},
    images::collect,
    root,
};
use std::{collections::BTreeSet, fs, path::Path};

#[test]
fn every_link_has_a_target() {
    let mut broken = Vec::new();
    let mut checked = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for target in targets(&text) {
            if let Some(problem) = problem(&page, &target) {
                broken.push(format!("{}: {target}: {problem}", page.display()));
            }
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked} links");
    assert!(broken.is_empty(), "{broken:#?}");
}

/// In the chart, the alerts, the dashboard and the forms for issues, for example.
#[test]
fn every_address_of_the_repository_has_a_target() {
    let (mut texts, mut checked) = (Vec::new(), 0);
    for place in ["manifests", ".github", "examples", "src"] {
        collect(&root().join(place), &mut texts);
    }
    for (path, text) in texts {
        for address in own_addresses(&text) {
            let problem = problem(Path::new(&path), address);
            assert_eq!(problem, None, "{path}: {address}");
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked} addresses");
}

#[test]
fn a_link_without_a_target_is_found() {
    const NO_FILE: Option<&str> = Some("no such file");
    const NO_HEADING: Option<&str> = Some("no such heading");
    const UNKNOWN: Option<&str> = Some("not a known page of the repository");
    let page = root().join("README.md");
    let repository = "https://github.com/volume-warden/volume-warden";
    for (start, end, expected) in [
        ("", "docs/proof.md#fuzzing", None),
        ("", "docs/proof.md#no-heading", NO_HEADING),
        ("", "docs/no-page.md", NO_FILE),
        ("https://example.com", "/no-page", None),
        (repository, "", None),
        (repository, "#readme", None),
        (repository, "#install", None),
        (repository, "#no-heading", NO_HEADING),
        (repository, "/blob/main/SECURITY.md", None),
        (repository, "/blob/main/no-file", NO_FILE),
        (repository, "/tree/main/docs", None),
        (repository, "/blob/v9/README.md", UNKNOWN),
        (repository, "/security/advisories/new", None),
        (repository, "/no-page", UNKNOWN),
    ] {
        let target = format!("{start}{end}");
        assert_eq!(problem(&page, &target), expected, "{target}");
    }
}

#[test]
fn every_page_of_the_book_is_in_its_summary() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("the summary");
    let listed: BTreeSet<_> = targets(&summary).map(|each| docs.join(each)).collect();
    let pages = pages().into_iter().filter(|page| page.starts_with(&docs));
    let pages: BTreeSet<_> = pages.filter(|page| !page.ends_with("SUMMARY.md")).collect();
    assert_eq!(listed, pages, "left: the summary; right: the files");
}

/// The targets of the inline links outside of code blocks.
fn targets(text: &str) -> impl Iterator<Item = String> {
    let prose: String = text.split("```").step_by(2).collect();
    let links: Vec<_> = prose.split("](").skip(1).map(str::to_owned).collect();
    links
        .into_iter()
        .filter_map(|rest| Some(rest.split(')').next()?.to_owned()))
}
