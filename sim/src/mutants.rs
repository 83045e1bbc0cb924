//! Seeded bugs, which test that the simulation finds bugs.
//!
//! Each replaces a text in the source of Volume Warden. One changed copy of the workspace contains
//! all of them. An environment variable selects the active one, so the copy is built only once.

use anyhow::Context as _;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Names the mutant to be active in the changed copy.
pub const VARIABLE: &str = "VOLUME_WARDEN_MUTANT";
/// The placeholder for the switch in a replacement.
const SWITCH: &str = "BUG";
/// The name of the program in the changed copy. Both are built into the same folder.
const PROGRAM: &str = "volume-warden-mutated-sim";

/// A seeded bug.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// The name in `--bin mutants` and in the report.
    pub name: String,
    /// What the bug does.
    pub what: String,
    /// The file that the bug changes.
    file: String,
    /// The text to replace, which occurs once in the file.
    find: String,
    /// What replaces the text.
    replace: String,
    /// Whether `.ci/run` searches for this bug.
    #[serde(default)]
    pub ci: bool,
    /// Whether the simulation has not found this bug yet. It is then searched for only if named.
    #[serde(default)]
    pub missed: bool,
}

/// Returns all seeded bugs.
///
/// # Errors
/// When their list cannot be read.
pub fn all() -> anyhow::Result<Vec<Mutant>> {
    Ok(serde_saphyr::from_str(include_str!("../mutants.yaml"))?)
}

/// Prefixes of the variables by which `cargo run` describes the package of this program.
const PACKAGE: [&str; 3] = ["CARGO_MANIFEST_", "CARGO_PKG_", "OUT_DIR"];

/// Creates the changed copy of the workspace with all mutants, builds it, and returns its program.
///
/// # Errors
/// When a text to replace does not occur exactly once, or the copy does not compile.
pub fn build(mutants: &[Mutant]) -> anyhow::Result<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or(workspace.join("target"), PathBuf::from);
    let copy = target.join("mutants");
    let mut changed = changed(&workspace, mutants)?;
    changed.insert("src/mutants.rs".into(), module(mutants));
    for file in files(&workspace)? {
        let content = match changed.remove(&file) {
            Some(content) => content.into_bytes(),
            None => fs::read(workspace.join(&file)).with_context(|| file.clone())?,
        };
        write(&copy.join(&file), &content)?;
    }
    for (file, content) in changed {
        write(&copy.join(&file), content.as_bytes())?;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = Command::new(cargo);
    cargo.args([
        "build",
        "--release",
        "--offline",
        "--package",
        "volume-warden-sim",
        "--bin",
        PROGRAM,
    ]);
    // Build scripts run again if one of these changes, and what depends on them is compiled again.
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let describes = |name: &String| PACKAGE.iter().any(|prefix| name.starts_with(prefix));
    for name in names.filter(describes) {
        cargo.env_remove(name);
    }
    let built = cargo
        .current_dir(&copy)
        .env("CARGO_TARGET_DIR", &target)
        .status()?;
    anyhow::ensure!(
        built.success(),
        "the changed copy in {} does not compile",
        copy.display()
    );
    Ok(target.join("release").join(PROGRAM))
}

/// The files of the workspace that git tracks or would add.
fn files(workspace: &Path) -> anyhow::Result<Vec<String>> {
    let mut git = Command::new("git");
    git.args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let listed = git.current_dir(workspace).output()?;
    anyhow::ensure!(listed.status.success(), "git ls-files failed");
    let names = String::from_utf8(listed.stdout)?;
    let exists = |name: &&str| workspace.join(name).is_file();
    Ok(names
        .split('\0')
        .filter(exists)
        .map(str::to_owned)
        .collect())
}

/// The files that differ in the copy, with their contents.
fn changed(workspace: &Path, mutants: &[Mutant]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut changed = BTreeMap::new();
    let mut edit = |file: &str, find: &str, replace: &str| -> anyhow::Result<()> {
        let content = match changed.remove(file) {
            Some(content) => content,
            None => fs::read_to_string(workspace.join(file)).with_context(|| file.to_owned())?,
        };
        let count = content.matches(find).count();
        anyhow::ensure!(count == 1, "{file} has {count} times: {find}");
        changed.insert(file.to_owned(), content.replace(find, replace));
        Ok(())
    };
    for mutant in mutants {
        let switch = format!("crate::mutants::is_active({:?})", mutant.name);
        edit(
            &mutant.file,
            &mutant.find,
            &mutant.replace.replace(SWITCH, &switch),
        )
        .with_context(|| mutant.name.clone())?;
    }
    // Both are built into the same folder. With the same version, cargo would confuse the libraries
    // of the workspace with those of the copy.
    let version = env!("CARGO_PKG_VERSION");
    edit(
        "Cargo.toml",
        &format!("\nversion = \"{version}\"\n"),
        &format!("\nversion = \"{version}-mutated\"\n"),
    )?;
    edit("src/lib.rs", "mod listener;", "mod listener;\nmod mutants;")?;
    edit(
        "sim/Cargo.toml",
        "name = \"volume-warden-sim\"\npath",
        &format!("name = \"{PROGRAM}\"\npath"),
    )?;
    edit(
        "sim/Cargo.toml",
        "default-run = \"volume-warden-sim\"\n",
        "",
    )?;
    Ok(changed)
}

/// The module with the switch.
fn module(mutants: &[Mutant]) -> String {
    let names: Vec<_> = mutants.iter().map(|mutant| &*mutant.name).collect();
    format!(
        "//! The switch of the seeded bugs.\n\
         use std::sync::LazyLock;\n\
         static ACTIVE: LazyLock<String> = LazyLock::new(|| {{\n\
         let name = std::env::var(\"{VARIABLE}\").unwrap_or_default();\n\
         assert!(name.is_empty() || {names:?}.contains(&&*name), \"unknown mutant\");\n\
         name\n\
         }});\n\
         pub(crate) fn is_active(name: &str) -> bool {{ *ACTIVE == name }}\n"
    )
}

/// Writes a file if its content differs, so that cargo rebuilds only what has changed.
fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|before| before == content) {
        return Ok(());
    }
    let folder = path.parent().context("a file has a folder")?;
    fs::create_dir_all(folder)?;
    Ok(fs::write(path, content)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seeded_bug_has_its_place() -> anyhow::Result<()> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        changed(&workspace, &all()?).map(drop)
    }

    /// The documentation has a table row with the seed of each bug that was found, and a list below
    /// it of the bugs that were not found yet.
    #[test]
    fn every_seeded_bug_is_documented() -> anyhow::Result<()> {
        let page = include_str!("../../docs/simulation.md");
        let rows = page.lines().filter_map(|line| {
            let (what, cells) = line.strip_prefix("| ")?.split_once(" | ")?;
            cells.ends_with("` |").then_some(what)
        });
        let rows: Vec<_> = rows.collect();
        let listed: Vec<_> = page
            .lines()
            .filter_map(|line| line.strip_prefix("- "))
            .collect();
        for mutant in all()? {
            let is_row = rows.iter().filter(|what| **what == mutant.what).count();
            let is_listed = listed
                .iter()
                .filter(|line| line.starts_with(&mutant.what))
                .count();
            let expected = if mutant.missed { (0, 1) } else { (1, 0) };
            assert_eq!((is_row, is_listed), expected, "{}", mutant.name);
        }
        assert_eq!(
            rows.len(),
            all()?.iter().filter(|mutant| !mutant.missed).count()
        );
        Ok(())
    }
}
