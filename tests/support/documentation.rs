//! The commands that the documentation shows.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A command, and where it is shown.
#[derive(Clone, Debug)]
pub struct Shown {
    pub page: PathBuf,
    pub command: String,
    /// Whether it is a line of a code block, and not a part of a sentence.
    pub in_block: bool,
}

/// All commands in code blocks, and every text in backquotes that may be one. The changelog is left
/// out, because what earlier versions offered may be gone.
pub fn shown() -> Vec<Shown> {
    let mut found = Vec::new();
    for page in pages() {
        if !page.ends_with("CHANGELOG.md") {
            let text = fs::read_to_string(&page).expect("a page");
            found.extend(blocks(&page, &text));
            found.extend(quoted(&page, &text));
        }
    }
    found
}

/// The commands of this program. A synopsis with alternatives or optional parts is none.
pub fn commands(program: &str) -> Vec<Shown> {
    let mut found = shown();
    found.retain(|Shown { command, .. }| {
        let is_synopsis =
            command.contains('…') || command.contains(" [") || command.contains("COMMAND");
        let has_alternatives = command.contains('|') && !command.contains(" | ");
        command.starts_with(program) && !is_synopsis && !has_alternatives
    });
    found
}

/// The pages of the book and the other Markdown files of the repository.
pub fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    collect(Path::new(env!("CARGO_MANIFEST_DIR")), &mut pages);
    assert!(pages.len() > 30, "{pages:?}");
    pages
}

fn collect(directory: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() && name != "target" && name != ".git" && name != "dist" {
            collect(&path, pages);
        } else if name.ends_with(".md") {
            pages.push(path);
        }
    }
}

/// The lines of shell blocks and of blocks that are indented by four spaces, and the commands of
/// transcripts.
fn blocks(page: &Path, text: &str) -> Vec<Shown> {
    let (mut found, mut fence) = (Vec::new(), None);
    for line in text.replace("\\\n", " ").lines() {
        if let Some(language) = line.trim().strip_prefix("```") {
            fence = fence.is_none().then(|| language.to_owned());
            continue;
        }
        let command = match fence.as_deref() {
            Some("sh") => Some(line.trim()),
            Some("text") => line.strip_prefix("$ "),
            Some(_) => None,
            None => line
                .strip_prefix("    ")
                .filter(|rest| !rest.starts_with(' ')),
        };
        let command = command.unwrap_or_default().split("  #").next();
        let words: Vec<_> = command.unwrap_or_default().split_whitespace().collect();
        if !words.is_empty() {
            found.push(Shown {
                page: page.to_owned(),
                command: words.join(" "),
                in_block: true,
            });
        }
    }
    found
}

fn quoted(page: &Path, text: &str) -> Vec<Shown> {
    let prose: String = text.split("```").step_by(2).collect();
    let quoted = prose.split('`').skip(1).step_by(2);
    let commands = quoted.map(|each| each.split_whitespace().collect::<Vec<_>>().join(" "));
    let shown = commands.map(|command| Shown {
        page: page.to_owned(),
        command,
        in_block: false,
    });
    shown.collect()
}
