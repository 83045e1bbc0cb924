//! Relative links, links to files of this repository on its host, and their anchors.

use crate::{documentation::pages, root};
use std::{collections::BTreeSet, fs, path::Path};

const HOST: &str = "https://github.com/volume-warden/volume-warden/blob/main/";

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

fn problem(page: &Path, target: &str) -> Option<&'static str> {
    let own = target.strip_prefix(HOST);
    if own.is_none() && target.contains("://") {
        return None;
    }
    let (file, anchor) = own
        .unwrap_or(target)
        .split_once('#')
        .unwrap_or((own.unwrap_or(target), ""));
    let path = match own {
        Some(_) => root().join(file),
        None if file.is_empty() => page.to_owned(),
        None => page.parent()?.join(file),
    };
    if !path.exists() {
        return Some("no such file");
    }
    if anchor.is_empty() {
        return None;
    }
    let text = fs::read_to_string(path).unwrap_or_default();
    (!anchors(&text).contains(anchor)).then_some("no such heading")
}

/// The anchors of the headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let prose: String = text.split("```").step_by(2).collect();
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading
                .chars()
                .filter(|each| each.is_alphanumeric() || "-_ ".contains(*each));
            kept.map(|each| if each == ' ' { '-' } else { each })
                .collect()
        })
        .collect()
}
