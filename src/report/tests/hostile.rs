//! Tests that text from the cluster cannot change the page or a command.

use super::*;

const TEXTS: [&str; 6] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "</style></title></svg><b>",
    "$(touch x); `touch x` && 'x'",
    "-o yaml\n\u{1b}[2J\u{202e}",
    "' onmouseover='alert(1)",
];

/// A cluster in which every text is hostile, also where the API server would refuse it.
fn cluster(text: &str) -> Listed {
    let owned = json!({"metadata": {"namespace": text, "ownerReferences": [
        {"apiVersion": "v1", "kind": text, "name": text, "uid": text}]},
        "spec": {"storageClassName": text, "volumeName": text}});
    let reference = json!({"metadata": {"annotations": {"volume-warden.dev/trash": text}},
        "spec": {"storageClassName": text, "claimRef": {"namespace": text, "name": text}}});
    let phases = ["Bound", "Released", "Available", "Failed"];
    let volumes = phases.map(|phase| read(volume(text, phase, reference.clone())));
    Listed {
        claims: vec![read(claim(text, owned))],
        volumes: volumes.into(),
        errors: vec![text.to_owned()],
        ..Listed::default()
    }
}

/// The names of all elements, and of their attributes.
fn markup(page: &str) -> Vec<String> {
    let (_, body) = page.split_once("</style>").expect("a style");
    let tags = body
        .split('<')
        .skip(1)
        .map(|tag| tag.split('>').next().unwrap_or_default());
    // The values of attributes are in quotation marks, so every second part is outside of a value.
    let outside = tags.map(|tag| tag.split('"').step_by(2).collect::<String>());
    let mut found: Vec<String> = outside.collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn no_text_becomes_markup() {
    let prices: Prices = TEXTS.map(|text| (text.to_owned(), 1.0)).into();
    let expected = markup(&page(&cluster("plain text"), Some("plain text"), &prices));
    for text in TEXTS {
        let page = page(&cluster(text), Some(text), &prices);
        assert_eq!(markup(&page), expected, "{text}");
        assert!(
            !page.contains('\u{1b}') && !page.contains('\u{202e}'),
            "{text}"
        );
    }
}

#[test]
fn no_text_is_in_a_command() {
    for text in TEXTS {
        for namespace in [None, Some(text)] {
            let page = page(&cluster(text), namespace, &Prices::new());
            assert!(!page.contains("<code>"), "{text}: {page}");
        }
    }
}

#[test]
fn text_is_bounded() {
    let long = "a".repeat(100_000);
    let page = page(&cluster(&long), Some(&long), &Prices::new());
    assert!(page.len() < 60_000, "{}", page.len());
}

#[test]
fn the_page_needs_nothing_else() {
    let page = page(&mixed(), None, &Prices::new());
    for part in [
        "<script", "http:", "https:", "src=", "url(", "@import", "<link", " on",
    ] {
        let (_, content) = page.split_once("<meta name=\"viewport\"").expect("a head");
        let found = content.match_indices(part).count();
        // The word "on" is allowed in a sentence, not as the start of an attribute.
        let words = content.match_indices(" on ").count();
        assert_eq!(found, if part == " on" { words } else { 0 }, "{part}");
    }
    assert!(page.contains("default-src 'none'"));
}
