//! The commands that the documentation shows, and the targets of its links.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// A command, and where it is shown.
#[derive(Clone, Debug)]
pub struct Shown {
    pub page: PathBuf,
    pub command: String,
    /// Whether the command is a line of a code block, and not a part of a sentence.
    pub in_block: bool,
}

/// All commands in code blocks, and every text in backquotes, which may be a command. The changelog
/// is excluded, because a command of an earlier version may no longer exist.
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

/// The commands of this program. A synopsis with alternatives or optional parts is not a command.
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

/// The address of this repository.
const REPOSITORY: &str = "https://github.com/volume-warden/volume-warden";
/// What precedes the path of a file in an address of this repository.
const FILES: [&str; 3] = ["/blob/main/", "/tree/main/", "/edit/main/"];
/// The pages of GitHub about this repository that the documentation may name.
const GITHUB: [&str; 2] = ["/releases", "/security/advisories/new"];

/// Why the target of a link on a page does not exist. The addresses of other sites are not checked.
pub fn problem(page: &Path, target: &str) -> Option<&'static str> {
    let (place, anchor) = target.split_once('#').unwrap_or((target, ""));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = match place.strip_prefix(REPOSITORY) {
        // The start page of the repository.
        Some("") if anchor.is_empty() || anchor == "readme" => return None,
        Some("") => root.join("README.md"),
        Some(rest) if GITHUB.contains(&rest) => return None,
        Some(rest) => match FILES.iter().find_map(|view| rest.strip_prefix(view)) {
            Some(file) => root.join(file),
            None => return Some("not a known page of the repository"),
        },
        None if place.contains("://") => return None,
        None if place.is_empty() => page.to_owned(),
        None => page.parent()?.join(place),
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

/// The addresses of pages and files of this repository in a text.
pub fn own_addresses(text: &str) -> Vec<&str> {
    let ends = |each: char| each.is_whitespace() || "\"'`<>()".contains(each);
    let words = text.split(ends);
    let own = words.filter(|word| word.starts_with(REPOSITORY));
    own.map(|word| word.trim_end_matches(['.', ',', ';', ':']))
        .collect()
}

/// The anchors of the headings, as GitHub and mdBook generate them.
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
