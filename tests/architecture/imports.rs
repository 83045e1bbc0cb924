//! The paths that a source file names in its own crate.

use std::path::Path;

/// A path of modules from the root of the crate; empty for the root itself.
pub type Module = Vec<String>;

/// The module of a file, whose path is relative to `src/`.
pub fn module_of(path: &Path) -> Module {
    let path = path.with_extension("");
    let names = path.iter().map(|name| name.to_string_lossy().into_owned());
    let mut module: Module = names.collect();
    if matches!(
        module.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        module.pop();
    }
    module
}

/// A path that a file names, from the root of the crate, and whether the file re-exports it (`pub
/// use`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    pub path: Vec<String>,
    pub passed_on: bool,
}

/// Every path below the crate's root in the `use` lines of the text, and every path that begins
/// with `crate::` elsewhere.
pub fn imports(module: &Module, text: &str) -> Vec<Import> {
    let code = without_tests(text);
    let mut found = Vec::new();
    for statement in statements(&code) {
        let (passed_on, tree) = statement;
        for path in expand(&tree) {
            if let Some(path) = absolute(module, &path) {
                found.push(Import { path, passed_on });
            }
        }
    }
    for part in code.split("crate::").skip(1) {
        let end = part.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
        let path = part[..end.unwrap_or(part.len())].split("::");
        let path: Vec<String> = path
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        found.push(Import {
            path,
            passed_on: false,
        });
    }
    found
}

/// The text without comments, up to its first test module.
fn without_tests(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let lines: Vec<&str> = lines.collect();
    let is_test = |pair: &[&str]| {
        pair[0].trim() == "#[cfg(test)]"
            && pair[1].trim_start().starts_with("mod ")
            && pair[1].contains('{')
    };
    let end = lines.windows(2).position(is_test).unwrap_or(lines.len());
    lines[..end].join("\n")
}

/// The `use` statements: whether each is public, and its tree.
fn statements(code: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some((before, after)) = rest.split_once("use ") {
        let line = before.rsplit('\n').next().unwrap_or_default().trim();
        let starts = line.is_empty() || line == "pub" || line.starts_with("pub(");
        let Some((tree, next)) = after.split_once(';') else {
            break;
        };
        if starts {
            found.push((
                !line.is_empty(),
                tree.split_whitespace().collect::<Vec<_>>().join(" "),
            ));
            rest = next;
        } else {
            rest = after;
        }
    }
    found
}

/// The paths of a tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let Some((prefix, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        let names = path.split("::").map(|name| name.trim().to_owned());
        return vec![
            names
                .filter(|name| !name.is_empty() && name != "self" && name != "*")
                .collect(),
        ];
    };
    let inner = rest.strip_suffix('}').unwrap_or(rest);
    let prefix: Vec<String> = expand(prefix).concat();
    let branches = branches(inner);
    let paths = branches.iter().flat_map(|branch| expand(branch));
    paths.map(|path| [prefix.clone(), path].concat()).collect()
}

/// The parts of a list in braces, split at its outermost commas.
fn branches(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&list[start..]);
    found.retain(|branch| !branch.trim().is_empty());
    found
}

/// Resolves a path from the root of the crate. None for another crate. A path that begins with a
/// child module stays relative to this module: [`crate::graph::Graph`] resolves it.
fn absolute(module: &Module, path: &[String]) -> Option<Vec<String>> {
    let first = path.first()?;
    match first.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "super" => {
            let ups = path.iter().take_while(|name| *name == "super").count();
            let base = &module[..module.len().checked_sub(ups)?];
            Some([base, &path[ups..]].concat())
        }
        _ => Some([module.as_slice(), path].concat()),
    }
}

#[test]
fn trees_are_expanded() {
    let module = vec!["a".to_owned(), "b".to_owned()];
    let text = "use super::{c, d::{E, f as g}};\npub use crate::x::Y;\nuse h::I;\nfn j() { crate::k::l(); }\n\
        #[cfg(test)]\nmod tests {\n    use crate::z::Z;\n}\n";
    let paths: Vec<(String, bool)> = imports(&module, text)
        .into_iter()
        .map(|import| (import.path.join("::"), import.passed_on))
        .collect();
    let expected = [
        ("a::c", false),
        ("a::d::E", false),
        ("a::d::f", false),
        ("x::Y", true),
        ("a::b::h::I", false),
        ("x::Y", false),
        ("k::l", false),
    ];
    let expected = expected.map(|(path, passed_on)| (path.to_owned(), passed_on));
    assert_eq!(paths, expected);
}
