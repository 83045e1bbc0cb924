//! The metrics and labels in a PromQL expression. Prometheus itself checks the syntax, see
//! `prometheus`.

use std::collections::BTreeSet;

/// The parts of an expression that refer to metrics and labels.
#[derive(Debug, Default)]
pub struct QueryParts {
    pub selectors: Vec<Selector>,
    /// The labels that each aggregation keeps: those of its `by (…)`, which precedes the operand.
    pub aggregations: Vec<BTreeSet<String>>,
    /// The labels of `on (…)`.
    pub matched: BTreeSet<String>,
}

/// A metric, with the labels that are matched.
#[derive(Debug)]
pub struct Selector {
    pub metric: String,
    pub labels: Vec<String>,
}

const KEYWORDS: [&str; 5] = ["and", "or", "unless", "offset", "bool"];
const AGGREGATIONS: [&str; 10] = [
    "avg", "bottomk", "count", "group", "max", "min", "quantile", "stddev", "sum", "topk",
];

impl QueryParts {
    pub fn of(expression: &str) -> Self {
        let tokens = tokens(expression);
        let mut parts = Self::default();
        let mut rest = &tokens[..];
        while let [first, after @ ..] = rest {
            let next = after.first().map_or("", String::as_str);
            rest = after;
            if AGGREGATIONS.contains(&&**first) {
                let (labels, after) = match next {
                    "by" => enclosed(&after[1..], ")"),
                    _ => (vec![], after),
                };
                parts.aggregations.push(labels.into_iter().collect());
                rest = after;
            } else if first == "on" {
                let (labels, after) = enclosed(after, ")");
                parts.matched.extend(labels);
                rest = after;
            } else if is_name(first) && next != "(" && !KEYWORDS.contains(&&**first) {
                let (labels, after) = match next {
                    "{" => enclosed(after, "}"),
                    _ => (vec![], after),
                };
                let metric = first.clone();
                parts.selectors.push(Selector { metric, labels });
                rest = after;
            }
        }
        parts
    }
}

/// The names up to the closing bracket, and the rest.
fn enclosed<'a>(tokens: &'a [String], closing: &str) -> (Vec<String>, &'a [String]) {
    let end = tokens.iter().position(|token| token == closing);
    let (inside, after) = tokens.split_at(end.expect("is closed"));
    let names = inside.iter().filter(|token| is_name(token));
    (names.cloned().collect(), after)
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// Words, numbers and signs, without quoted text.
fn tokens(expression: &str) -> Vec<String> {
    let unquoted = expression
        .split('"')
        .step_by(2)
        .collect::<Vec<_>>()
        .join(" ");
    let mut tokens = Vec::new();
    let mut word = String::new();
    for each in unquoted.chars().chain([' ']) {
        if each.is_ascii_alphanumeric() || ['_', ':', '.'].contains(&each) {
            word.push(each);
            continue;
        }
        if !word.is_empty() {
            tokens.push(std::mem::take(&mut word));
        }
        if !each.is_whitespace() {
            tokens.push(each.to_string());
        }
    }
    tokens
}

#[test]
fn metrics_and_labels_are_found() {
    let parts = QueryParts::of(
        "histogram_quantile(0.9, sum by (le, path) (rate(a_bucket{x=~\"b|c{d}\", y!=\"z\"}[5m]))) > 0.1 or b - b offset 1d and on (pod) max(c)",
    );
    let found = parts.selectors.iter();
    let found: Vec<_> = found
        .map(|each| (&*each.metric, each.labels.join(",")))
        .collect();
    let none = String::new;
    assert_eq!(
        found,
        [
            ("a_bucket", "x,y".into()),
            ("b", none()),
            ("b", none()),
            ("c", none())
        ]
    );
    let kept = BTreeSet::from(["le", "path"].map(String::from));
    assert_eq!(parts.aggregations, [kept, BTreeSet::new()]);
    assert_eq!(parts.matched, BTreeSet::from(["pod".to_owned()]));
}
