//! Tests of the page.

mod commands;
mod hostile;
mod large;

use super::{Subject, html};
use crate::hashing::HashMap;
use crate::inventory::Listed;
use crate::objects::{Namespace, Tracked as _};
use crate::unused::{
    Output, Prices, rows, shown,
    test_objects::{claim, pod, read, volume},
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn now() -> Timestamp {
    "2026-01-31T00:00:00Z".parse().expect("a time")
}

fn page(listed: &Listed, namespace: Option<&str>, prices: &Prices) -> String {
    html(&Subject {
        listed,
        namespace,
        prices,
        cluster_flags: "",
        now: now(),
    })
}

/// The row of a table with this identifier.
fn row<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("id=\"{id}\"")).expect(id);
    rest.split("</tr>").next().unwrap_or_default()
}

/// Number, bytes and cost of a row: the contents of its cells, and the value of `data`.
fn numbers(page: &str, id: &str) -> (u64, f64, String) {
    let cells: Vec<&str> = row(page, id)
        .split("<td class=\"number\">")
        .skip(1)
        .collect();
    let content = |cell: &str| cell.split('<').next().unwrap_or_default().replace(',', "");
    let (_, bytes) = cells[1].split_once("value=\"").expect("a size");
    let bytes = bytes.split('"').next().unwrap_or_default();
    (
        content(cells[0]).parse().expect("a number"),
        bytes.parse().expect("bytes"),
        cells.get(3).map(|cell| content(cell)).unwrap_or_default(),
    )
}

/// The section of a group.
fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("<section id=\"{id}\"")).expect(id);
    rest.split("</section>").next().unwrap_or_default()
}

fn deleting(since: &str) -> Value {
    json!({"metadata": {"deletionTimestamp": since}})
}

/// The annotation `TRASH` of a volume that is in the trash, or whose claim could be restored.
fn record(claim: &str, policy: &str) -> Value {
    record_with(claim, json!({"policy": policy}))
}

/// As [`record`], with changes in the annotation.
fn record_with(claim: &str, changes: Value) -> Value {
    let mut record = json!({"policy": "Delete", "windowSeconds": 259_200, "deletedAt": "2026-01-30T00:00:00Z",
        "claim": {"namespace": "shop", "name": claim, "uid": "1", "namespaceUid": "n"}});
    json_patch::merge(&mut record, &changes);
    json!({"metadata": {"annotations": {"volume-warden.dev/trash": record.to_string()}},
        "spec": {"claimRef": {"name": claim}}})
}

/// The namespace `shop` of the records.
fn shop() -> HashMap<String, Namespace> {
    namespace(json!({"uid": "n"}))
}

/// The namespace `shop` with this metadata.
fn namespace(metadata: Value) -> HashMap<String, Namespace> {
    let wire = serde_json::from_value(json!({"metadata": metadata})).expect("a namespace");
    let namespace = Namespace::track(wire).expect("kept");
    [("shop".to_owned(), namespace)].into_iter().collect()
}

/// Claims and volumes in every state.
fn mixed() -> Listed {
    let since = |time: &str| {
        json!({"status": {"conditions": [
            {"type": "Unused", "status": "True", "lastTransitionTime": time}]}})
    };
    let trash = record("of-trashed", "Delete");
    Listed {
        claims: vec![
            read(claim("used", json!({}))),
            read(claim("going", deleting("2026-01-30T00:00:00Z"))),
            read(claim("just", deleting("2026-01-30T23:59:30Z"))),
            read(claim("week", since("2026-01-30T00:00:00Z"))),
            read(claim("month", since("2026-01-10T00:00:00Z"))),
            read(claim("old", since("2025-01-10T00:00:00Z"))),
            read(claim("unknown", json!({"status": {"conditions": null}}))),
            read(claim("free", json!({"spec": {"storageClassName": "none"}}))),
        ],
        pods: vec![pod("a", "used", "Running"), pod("b", "going", "Running")],
        volumes: vec![
            read(volume("pv-used", "Bound", deleting("2026-01-30T00:00:00Z"))),
            read(volume(
                "available",
                "Available",
                json!({"spec": {"claimRef": null}}),
            )),
            read(volume("failed", "Failed", json!({}))),
            read(volume("kept", "Released", json!({}))),
            read(volume("trashed", "Released", trash)),
        ],
        namespaces: shop(),
        ..Listed::default()
    }
}

#[test]
fn the_numbers_are_those_of_the_command_unused() {
    let (listed, prices) = (
        mixed(),
        [("fast".to_owned(), 0.08), ("slow".to_owned(), 0.01)].into(),
    );
    for namespace in [None, Some("shop")] {
        let page = page(&listed, namespace, &prices);
        let json = shown(&rows(&listed, namespace), Output::Json, &prices, now());
        let json: Value = serde_json::from_str(&json).expect("JSON");
        let mut states: BTreeMap<&str, (u64, f64, f64)> = BTreeMap::new();
        for total in json["totals"].as_array().expect("a list") {
            let state = match total["state"].as_str().expect("a state") {
                "Terminating" => "Unused",
                state => state,
            };
            let state = states.entry(state);
            let state = state.or_default();
            state.0 += total["count"].as_u64().expect("a number");
            state.1 += total["bytes"].as_f64().expect("a number");
            state.2 += total["costPerMonth"].as_f64().unwrap_or_default();
        }
        assert_eq!(states.len(), if namespace.is_none() { 5 } else { 4 });
        for (state, (count, bytes, cost)) in states {
            let expected = (count, bytes, format!("{cost:.2}"));
            assert_eq!(numbers(&page, state), expected, "{state}");
        }
    }
}

#[test]
fn each_claim_and_volume_is_counted_once() {
    let page = page(&mixed(), None, &Prices::new());
    let states = [
        "Used",
        "Unused",
        "Released",
        "InTrash",
        "Available",
        "Failed",
    ];
    let found = states.map(|state| numbers(&page, state));
    assert_eq!(found.each_ref().map(|state| state.0), [2, 6, 1, 1, 1, 1]);
    let total = numbers(&page, "Total");
    assert_eq!(found.iter().map(|state| state.0).sum::<u64>(), total.0);
    assert_eq!(found.iter().map(|state| state.1).sum::<f64>(), total.1);
    // The claims `just` and `free` have the time of the template in their condition `Unused`.
    let ages = [
        ("UnderWeek", 1),
        ("UnderMonth", 1),
        ("UnderQuarter", 2),
        ("Older", 1),
        ("Unknown", 1),
    ];
    for (age, number) in ages {
        assert_eq!(numbers(&page, age).0, number, "{age}");
    }
    assert!(!page.contains("Cost"), "nothing has a price");
}

#[test]
fn what_cannot_be_read_is_named() {
    let mut listed = Listed::default();
    let empty = page(&listed, Some("shop"), &Prices::new());
    assert!(
        !empty.contains("Not read") && empty.contains("None found."),
        "{empty}"
    );
    listed
        .errors
        .push("Jobs could not be listed: <no>".to_owned());
    let page = page(&listed, Some("shop"), &Prices::new());
    assert!(
        page.contains("<li>Jobs could not be listed: &lt;no&gt;</li>"),
        "{page}"
    );
}
