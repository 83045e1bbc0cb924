//! The dependency graph of files and folders.

use crate::imports::{Import, Module, imports};
use std::collections::{BTreeMap, BTreeSet};

/// The nodes, which are files or folders, and the nodes that each of them uses.
pub struct Graph(BTreeMap<Module, BTreeSet<Module>>);

impl Graph {
    /// Builds the graph of these files: the module of each, and its text.
    pub fn new(files: Vec<(Module, String)>) -> Self {
        let files: BTreeMap<Module, Vec<Import>> = files
            .into_iter()
            .map(|(module, text)| {
                let imports = imports(&module, &text);
                (module, imports)
            })
            .collect();
        let edges = files.iter().map(|(module, imports)| {
            let used = imports
                .iter()
                .filter_map(|import| owner(&files, &import.path));
            // A parent module declares its children and re-exports their items.
            let used = used.filter(|used| !used.starts_with(module) && !module.starts_with(used));
            (module.clone(), used.collect())
        });
        Self(edges.collect())
    }

    /// Each file with each file that it uses.
    pub fn edges(&self) -> impl Iterator<Item = (&Module, &Module)> {
        let edges = self.0.iter();
        edges.flat_map(|(from, used)| used.iter().map(move |to| (from, to)))
    }

    /// The graph of folders: a dependency of a file counts for its folder.
    pub fn folders(&self) -> Self {
        let folder = |module: &Module| module[..module.len().saturating_sub(1).max(1)].to_vec();
        let mut folders: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (from, to) in self.edges() {
            let (from, to) = (folder(from), folder(to));
            if !from.starts_with(&to) && !to.starts_with(&from) {
                folders.entry(from).or_default().insert(to);
            }
        }
        Self(folders)
    }

    /// Every cycle: a set of more than one node that can be reached from each other.
    pub fn circles(&self) -> Vec<Vec<String>> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> = self
            .0
            .keys()
            .map(|from| (from, self.reached(from)))
            .collect();
        let mut circles = BTreeSet::new();
        for (from, to) in &reached {
            let back = |other: &&&Module| reached.get(*other).is_some_and(|to| to.contains(from));
            let circle: BTreeSet<String> = to
                .iter()
                .filter(back)
                .map(|module| module.join("::"))
                .collect();
            if circle.len() > 1 {
                circles.insert(circle.into_iter().collect::<Vec<_>>());
            }
        }
        circles.into_iter().collect()
    }

    fn reached<'a>(&'a self, from: &Module) -> BTreeSet<&'a Module> {
        let mut found = BTreeSet::new();
        let mut next: Vec<&Module> = self.0.get(from).into_iter().flatten().collect();
        while let Some(module) = next.pop() {
            if found.insert(module) {
                next.extend(self.0.get(module).into_iter().flatten());
            }
        }
        found
    }
}

/// The file that contains the item at the path, after following re-exports.
fn owner(files: &BTreeMap<Module, Vec<Import>>, path: &[String]) -> Option<Module> {
    let length = (0..=path.len())
        .rev()
        .find(|length| files.contains_key(&path[..*length]))?;
    let (module, rest) = path.split_at(length);
    if module.is_empty() {
        return None;
    }
    let passed_on = rest.first().and_then(|name| {
        let mut imports = files.get(module)?.iter();
        imports.find(|import| import.passed_on && import.path.last() == Some(name))
    });
    match passed_on {
        Some(import) if import.path.len() > 1 && import.path != path => {
            owner(files, &import.path).or_else(|| Some(module.to_vec()))
        }
        _ => Some(module.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let files = files.iter().map(|(module, text)| {
            let module = module.split("::").map(str::to_owned).collect();
            (module, (*text).to_owned())
        });
        Graph::new(files.collect())
    }

    #[test]
    fn a_circle_is_found_through_a_facade() {
        let circle = graph(&[
            ("a", "mod b;\npub use b::B;"),
            ("a::b", "use crate::c::C;"),
            ("c", "use crate::a::B;"),
            ("d", "use crate::c::C;"),
        ]);
        assert_eq!(circle.circles(), [["a::b", "c"]]);
        let none = graph(&[("a", ""), ("b", "use crate::a::A;")]);
        assert!(none.circles().is_empty());
    }
}
