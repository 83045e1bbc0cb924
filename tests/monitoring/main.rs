//! Tests of the shipped alerts and of the dashboard: every query uses metrics that a real Volume
//! Warden serves, every alert has a runbook and tests, and every query keeps the label `cluster`.

mod live;
mod prometheus;
mod promql;
mod shipped;

use promql::QueryParts;
use serde_json::Value;
use shipped::{
    Alert, ROOT, alerts, dashboard, dashboard_expressions, queries, substitute_variables,
};
use std::collections::{BTreeMap, BTreeSet};

/// The labels that Prometheus adds to every series of a target of the ServiceMonitor. It adds
/// `cluster` only if it is configured to.
const TARGET_LABELS: [&str; 4] = ["cluster", "namespace", "pod", "job"];
/// The API server's counter of webhook calls that failed open.
const FAIL_OPEN: &str = "apiserver_admission_webhook_fail_open_count";
/// The address of the runbooks in the alerts.
const RUNBOOKS: &str =
    "https://github.com/volume-warden/volume-warden/blob/main/docs/operations/runbooks.md";

/// The labels of each metric.
type Served = BTreeMap<String, BTreeSet<String>>;

/// The metrics and labels of the query that no series has, as text.
fn not_served(parts: &QueryParts, served: &Served) -> Vec<String> {
    let mut missing = Vec::new();
    let mut known: BTreeSet<&str> = TARGET_LABELS.into();
    for selector in &parts.selectors {
        let Some(labels) = served.get(&selector.metric) else {
            missing.push(selector.metric.clone());
            continue;
        };
        known.extend(labels.iter().map(String::as_str));
        let has = |label: &String| labels.contains(label) || TARGET_LABELS.contains(&&**label);
        let absent = selector.labels.iter().filter(|label| !has(label));
        missing.extend(absent.map(|label| format!("{}{{{label}}}", selector.metric)));
    }
    let grouped = parts.aggregations.iter().flatten().chain(&parts.matched);
    let unknown = grouped.filter(|label| !known.contains(label.as_str()));
    missing.extend(unknown.cloned());
    missing
}

#[test]
fn every_alert_has_a_section_in_the_runbooks() {
    let text = std::fs::read_to_string(format!("{ROOT}/docs/operations/runbooks.md"));
    let text = text.expect("the runbooks");
    let sections: BTreeMap<&str, &str> = text
        .split("\n## ")
        .skip(1)
        .filter_map(|section| section.split_once('\n'))
        .collect();
    let alerts = alerts();
    let names: BTreeSet<&str> = alerts.iter().map(|alert| &*alert.name).collect();
    assert_eq!(
        names,
        sections.keys().copied().collect(),
        "alerts; sections"
    );
    for Alert { name, runbook, .. } in &alerts {
        assert_eq!(*runbook, format!("{RUNBOOKS}#{}", name.to_lowercase()));
        for part in [
            "**Meaning.**",
            "**Impact.**",
            "**Diagnosis.**",
            "**Mitigation.**",
        ] {
            assert!(sections[&**name].contains(part), "{name} has no {part}");
        }
    }
}

#[test]
fn every_alert_says_what_happened_why_it_matters_and_what_to_do() {
    for Alert {
        name,
        severity,
        summary,
        description,
        ..
    } in alerts()
    {
        let known = ["critical", "warning", "info"].contains(&&*severity);
        assert!(known, "{name}: {severity}");
        let names_cluster = summary.contains("with $labels.cluster }} ");
        assert!(names_cluster && summary.ends_with('.'), "{name}: {summary}");
        let sentences = description.matches(". ").count() + 1;
        assert!(
            description.ends_with('.') && sentences >= 3,
            "{name}: {description}"
        );
    }
}

#[test]
fn every_alert_has_a_test_that_fires_and_one_that_does_not() {
    let tests = shipped::yaml(&format!("{ROOT}/tests/monitoring/alerts.yaml"));
    let tests = tests["tests"].as_array().expect("tests");
    let cases = tests
        .iter()
        .flat_map(|test| test["alert_rule_test"].as_array());
    let cases: Vec<_> = cases.flatten().collect();
    for Alert { name, .. } in alerts() {
        for fires in [true, false] {
            let matches = |case: &&serde_json::Value| {
                let expected = case["exp_alerts"]
                    .as_array()
                    .is_some_and(|all| !all.is_empty());
                case["alertname"] == *name && expected == fires
            };
            assert!(cases.iter().any(matches), "{name}, firing: {fires}");
        }
    }
}

#[test]
fn every_aggregation_keeps_the_cluster() {
    for query in queries() {
        let kept = QueryParts::of(&query).aggregations;
        let all = kept.iter().all(|labels| labels.contains("cluster"));
        assert!(all, "{query}");
    }
}

#[test]
fn the_dashboard_selects_the_cluster() {
    for expression in dashboard_expressions() {
        let selectors = QueryParts::of(&substitute_variables(&expression)).selectors;
        let selected = expression.matches(r#"cluster=~"$cluster""#).count();
        assert_eq!(selected, selectors.len(), "{expression}");
    }
    let variables = dashboard()["templating"]["list"].take();
    let variables = variables.as_array().expect("variables");
    let names: Vec<_> = variables.iter().map(|each| &each["name"]).collect();
    assert_eq!(names, ["datasource", "cluster", "namespace"]);
    for variable in &variables[1..] {
        // ".*" also matches series without the label.
        assert_eq!(variable["allValue"], ".*", "{variable}");
        assert_eq!(variable["multi"], true, "{variable}");
    }
    let clusters = "label_values(volume_warden_build_info, cluster)";
    assert_eq!(variables[1]["query"], clusters);
}

/// The first row shows what is stuck, and the second one the storage that is allocated and not
/// used, in bytes.
#[test]
fn the_dashboard_begins_with_what_users_ask_for() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut rows = panels.split(|panel| panel["type"] == "row").skip(1);
    let titles: Vec<_> = panels
        .iter()
        .filter(|panel| panel["type"] == "row")
        .collect();
    assert_eq!(titles[0]["title"], "Stuck now");
    assert_eq!(titles[1]["title"], "Unused, and in the trash");
    let second = rows.nth(1).expect("a second row");
    assert_eq!(second[0]["fieldConfig"]["defaults"]["unit"], "bytes");
    let row = Value::from(second).to_string();
    for metric in [
        "unused_bytes",
        "released_bytes",
        "trash_bytes",
        "trash_volumes",
        "released_volumes",
        "expiry_claims",
    ] {
        assert!(row.contains(metric), "no {metric}");
    }
    let mut last = 0;
    for panel in panels {
        let top = panel["gridPos"]["y"].as_u64().expect("a position");
        assert!(top >= last, "{panel} is above its predecessor");
        last = top;
    }
}

#[test]
fn the_dashboard_can_be_imported() {
    let dashboard = dashboard();
    assert_eq!(dashboard["uid"], "volume-warden");
    assert_eq!(dashboard["title"], "Volume Warden");
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    let (rows, panels): (Vec<_>, Vec<_>) = panels.iter().partition(|panel| panel["type"] == "row");
    // A collapsed row contains its panels, and these tests would not find them.
    assert!(rows.iter().all(|row| row["collapsed"] == false));
    for panel in panels {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        let description = panel["description"].as_str().unwrap_or_default();
        assert!(description.ends_with('.'), "{panel}");
        let unit = &panel["fieldConfig"]["defaults"]["unit"];
        assert!(unit.is_string(), "{panel}");
        let targets = panel["targets"].as_array().expect("targets");
        assert!(!targets.is_empty(), "{panel}");
        let named = targets
            .iter()
            .all(|target| target["legendFormat"].is_string());
        assert!(named, "{panel}");
    }
}

/// The other tests would pass without any query.
#[test]
fn there_are_queries() {
    let queries = queries();
    assert!(queries.len() > 30, "{}", queries.len());
    assert!(
        queries
            .iter()
            .all(|query| !QueryParts::of(query).selectors.is_empty())
    );
}
