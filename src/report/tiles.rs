//! The tiles of the treemap: namespaces, divided into their classes. Small ones are merged.

use super::{
    locations::Location,
    text,
    treemap::{Rect, squarified},
};
use std::collections::BTreeMap;

/// Maximum number of rectangles of namespaces, and of classes of one namespace. One more rectangle
/// merges the smaller ones.
const MOST: usize = 48;
/// Smallest areas of the rectangles of namespaces and of classes, in square pixels. Two or more
/// smaller ones are merged.
const LEAST_NAMESPACE: f64 = 3000.0;
const LEAST_CLASS: f64 = 5000.0;

/// A namespace, or a class of one.
#[derive(Debug, PartialEq)]
struct Node {
    name: String,
    bytes: f64,
    /// The bytes that no pod uses.
    idle: f64,
    /// The classes of a namespace.
    parts: Vec<Node>,
}

/// A rectangle with its texts.
pub(super) struct Tile {
    pub(super) rect: Rect,
    /// Names, which may be cut.
    pub(super) names: Vec<String>,
    /// The size, and the share that no pod uses.
    pub(super) numbers: [String; 2],
    /// The share that no pod uses, rounded up to quarters: 0 to 4.
    pub(super) step: usize,
}

/// The namespaces with their classes.
fn namespaces(locations: &[Location<'_>]) -> Vec<Node> {
    let mut found: Vec<Node> = Vec::new();
    let mut index = BTreeMap::new();
    for place in locations.iter().filter(|place| place.total.bytes > 0.0) {
        let at = *index.entry(place.namespace).or_insert_with(|| {
            let name = match place.namespace {
                "" => "no namespace".to_owned(),
                namespace => text::bounded(namespace, 63),
            };
            found.push(Node {
                name,
                bytes: 0.0,
                idle: 0.0,
                parts: Vec::new(),
            });
            found.len() - 1
        });
        let class = Node {
            name: match place.class {
                "" => "no class".to_owned(),
                class => text::bounded(class, 63),
            },
            bytes: place.total.bytes,
            idle: place.idle.bytes,
            parts: Vec::new(),
        };
        found[at].bytes += class.bytes;
        found[at].idle += class.idle;
        found[at].parts.push(class);
    }
    found
}

/// Replaces the nodes that are smaller than `least`, and all but the [`MOST`] largest, by one node,
/// unless this would replace only one. Returns the largest first. `kind` names the kind of node in
/// the plural.
fn merged(mut nodes: Vec<Node>, least: f64, kind: &str) -> Vec<Node> {
    nodes.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    let large = nodes.iter().take_while(|node| node.bytes >= least).count();
    let rest = match nodes.len() - large.min(MOST) {
        0 | 1 => Vec::new(),
        _ => nodes.split_off(large.min(MOST)),
    };
    if !rest.is_empty() {
        let kind = if nodes.is_empty() { kind } else { "others" };
        nodes.push(Node {
            name: format!("{} {kind}", rest.len()),
            bytes: rest.iter().map(|node| node.bytes).sum(),
            idle: rest.iter().map(|node| node.idle).sum(),
            parts: Vec::new(),
        });
        nodes.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    }
    nodes
}

/// Returns the rectangles of the classes of the namespaces. Small ones are merged.
pub(super) fn tiles(locations: &[Location<'_>], area: Rect) -> Vec<Tile> {
    let nodes = namespaces(locations);
    let total: f64 = nodes.iter().map(|node| node.bytes).sum();
    let [namespace, class] =
        [LEAST_NAMESPACE, LEAST_CLASS].map(|least| least / area.area() * total);
    let mut found = Vec::new();
    for (node, rect) in placed(merged(nodes, namespace, "namespaces"), area) {
        if node.parts.is_empty() {
            found.push(tile(&[&node.name], &node, rect));
        } else {
            for (part, rect) in placed(merged(node.parts, class, "classes"), rect) {
                found.push(tile(&[&node.name, &part.name], &part, rect));
            }
        }
    }
    found
}

fn placed(nodes: Vec<Node>, area: Rect) -> impl Iterator<Item = (Node, Rect)> {
    let values: Vec<f64> = nodes.iter().map(|node| node.bytes).collect();
    nodes.into_iter().zip(squarified(&values, area))
}

fn tile(names: &[&String], of: &Node, rect: Rect) -> Tile {
    let unused = format!("{} not used", text::percent(of.idle, of.bytes));
    let share = of.idle / of.bytes;
    let step = [0.0, 0.25, 0.5, 0.75]
        .iter()
        .filter(|limit| share > **limit)
        .count();
    Tile {
        rect,
        names: names.iter().copied().cloned().collect(),
        numbers: [text::size(of.bytes), unused],
        step,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, bytes: f64) -> Node {
        Node {
            name: name.into(),
            bytes,
            idle: bytes / 2.0,
            parts: Vec::new(),
        }
    }

    #[test]
    fn small_ones_are_merged_and_nothing_is_lost() {
        let nodes = |number: u32| (0..number).map(|each| node("n", f64::from(each + 1)));
        for (number, least, expected) in
            [(3, 0.0, 3), (100, 0.0, MOST + 1), (10, 6.0, 6), (3, 2.0, 3)]
        {
            let merged = merged(nodes(number).collect(), least, "classes");
            assert_eq!(merged.len(), expected, "{number}, {least}");
            let sum = |of: fn(&Node) -> f64| merged.iter().map(of).sum::<f64>();
            let all = f64::from(number * (number + 1) / 2);
            assert_eq!(
                (sum(|node| node.bytes), sum(|node| node.idle)),
                (all, all / 2.0)
            );
            assert!(merged.is_sorted_by(|a, b| a.bytes >= b.bytes), "{merged:?}");
        }
    }

    #[test]
    fn the_color_is_the_share_that_no_pod_uses() {
        let steps = [0.0, 0.1, 0.25, 0.5, 0.51, 0.75, 0.8, 1.0].map(|idle| {
            let node = Node {
                idle,
                ..node("n", 1.0)
            };
            tile(&[&node.name], &node, Rect::default()).step
        });
        assert_eq!(steps, [0, 1, 1, 2, 3, 3, 4, 4]);
    }
}
