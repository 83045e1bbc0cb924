//! Renders the stuck objects that `why --stuck` finds as a table.

use super::tree::age_of;
use crate::{
    cli::print::{print, print_error},
    plain::Plain,
    why::{Item, Stuck},
};
use anstyle::Style;
use k8s_openapi::jiff::Timestamp;
use std::fmt;

const HEADER: Style = Style::new().bold();
/// Spaces between two columns.
const GAP: usize = 3;

/// Which columns the table of `why --stuck` has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Columns {
    /// All columns except the sentence of the root cause.
    Usual,
    /// The columns of [`Columns::Usual`], and the sentence of the root cause.
    Wide,
}

/// Stuck objects as a table, one line each, with ages relative to the timestamp.
pub(super) struct Table<'a>(pub &'a Stuck, pub Columns, pub Timestamp);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(stuck, columns, now) = self;
        if stuck.items.is_empty() {
            return f.write_str(if stuck.unread.is_empty() {
                "Nothing is stuck.\n"
            } else {
                "Nothing is stuck among the objects that could be read.\n"
            });
        }
        let mut rows = vec![Row::title()];
        rows.extend(stuck.items.iter().map(|item| Row::of(item, *now)));
        let widths: [usize; CELLS] = std::array::from_fn(|column| {
            let cells = rows.iter().map(|row| row.cells[column].chars().count());
            cells.max().unwrap_or_default() + GAP
        });
        for (index, row) in rows.iter().enumerate() {
            let cells = row.cells.iter().zip(widths);
            let mut text: String = cells
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            if *columns == Columns::Wide {
                text += &row.sentence;
            }
            let text = text.trim_end();
            match index {
                0 => writeln!(f, "{HEADER}{text}{HEADER:#}")?,
                _ => writeln!(f, "{text}")?,
            }
        }
        Ok(())
    }
}

/// The number of columns without that of the sentence.
const CELLS: usize = 6;

/// The stuck objects, one a line, as kubectl prints them with `-o name`.
pub(super) fn names(stuck: &Stuck) -> String {
    let names = stuck.items.iter().map(|item| item.resource.as_str());
    names.collect::<Vec<_>>().join("\n")
}

/// Prints the text on standard output, and what could not be read on standard error.
///
/// # Errors
/// When the text cannot be written.
pub(super) fn report(stuck: &Stuck, text: &str) -> anyhow::Result<()> {
    if !text.is_empty() {
        print(text.trim_end())?;
    }
    for sentence in &stuck.unread {
        print_error(format_args!("incomplete: {sentence}"));
    }
    Ok(())
}

struct Row {
    cells: [String; CELLS],
    sentence: String,
}

impl Row {
    fn title() -> Self {
        let titles = ["NAMESPACE", "OBJECT", "STATE", "AGE", "ROOT", "DETAILS"];
        Self {
            cells: titles.map(str::to_owned),
            sentence: "CAUSE".to_owned(),
        }
    }

    fn of(item: &Item, now: Timestamp) -> Self {
        let or_dash = |text: &str| {
            if text.is_empty() {
                "-".to_owned()
            } else {
                Plain(text).to_string()
            }
        };
        let age = item.since.map(|since| age_of(since, now));
        let root = item.root.as_ref();
        Self {
            cells: [
                or_dash(&item.namespace),
                or_dash(&item.object),
                or_dash(&item.state),
                or_dash(age.as_deref().unwrap_or_default()),
                or_dash(root.map_or("", |root| root.code.name())),
                or_dash(&item.command),
            ],
            sentence: or_dash(root.map_or("", |root| &root.sentence)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::{Cause, Code, Evidence};

    fn stuck(unread: &[&str], items: Vec<Item>) -> Stuck {
        let unread = unread.iter().map(|&each| each.to_owned()).collect();
        Stuck {
            items,
            unread,
            calls: 0,
        }
    }

    fn shown(stuck: &Stuck, columns: Columns) -> String {
        let now = Timestamp::from_second(7200).expect("a time");
        let table = Table(stuck, columns, now).to_string();
        // Only the title is styled.
        let (title, rows) = table.split_once('\n').unwrap_or((&table, ""));
        assert!(!rows.contains(['\u{1b}', '\u{202e}']), "{rows:?}");
        format!("{}\n{rows}", anstream::adapter::strip_str(title))
    }

    fn item(namespace: &str, object: &str, root: Option<Cause>) -> Item {
        Item {
            kind: "PersistentVolumeClaim",
            object: object.to_owned(),
            resource: String::new(),
            namespace: namespace.to_owned(),
            name: String::new(),
            state: "Terminating".to_owned(),
            since: Some(Timestamp::UNIX_EPOCH),
            root,
            command: format!("volume-warden why {object}"),
        }
    }

    #[test]
    fn each_object_has_one_line() {
        let sentence = "A pod\n\u{1b}[2J\u{202e}uses it.";
        let cause = Cause::new(Code::InUse, sentence, Evidence::new("Pod a/b", "spec"));
        let items = vec![
            item("shop", "pvc/data", Some(cause)),
            item("", "pv/disk", None),
        ];
        let stuck = stuck(&[], items);
        let usual = shown(&stuck, Columns::Usual);
        let expected = "\
NAMESPACE   OBJECT     STATE         AGE   ROOT    DETAILS
shop        pvc/data   Terminating   2 h   InUse   volume-warden why pvc/data
-           pv/disk    Terminating   2 h   -       volume-warden why pv/disk
";
        assert_eq!(usual, expected);
        let wide = shown(&stuck, Columns::Wide);
        let lines: Vec<_> = wide.lines().collect();
        assert!(
            lines[0].ends_with("DETAILS                      CAUSE"),
            "{wide}"
        );
        assert!(
            lines[1].ends_with("why pvc/data   A pod\\n\\u{1b}[2J\\u{202e}uses it."),
            "{wide}"
        );
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn the_page_of_the_command_shows_the_table() {
        let now = Timestamp::from_second(1_000_000).expect("a time");
        let row = |(namespace, object, state, minutes, root): (_, _, &str, i64, _)| {
            let cause = Cause::new(root, "", Evidence::new("", ""));
            let at = match namespace {
                "" => String::new(),
                namespace => format!(" -n {namespace}"),
            };
            Item {
                state: state.to_owned(),
                since: Timestamp::from_second(1_000_000 - 60 * minutes).ok(),
                command: format!("volume-warden why {object}{at}"),
                ..item(namespace, object, Some(cause))
            }
        };
        let rows = [
            ("shop", "pvc/data", "Terminating", 12, Code::NodeLost),
            ("", "pv/archive", "Released", 3 * 24 * 60, Code::Retained),
            ("shop", "pod/report", "Pending", 4, Code::ClaimMissing),
        ];
        let stuck = stuck(&[], rows.map(row).into());
        let table = Table(&stuck, Columns::Usual, now).to_string();
        let block = format!("```text\n{}```", anstream::adapter::strip_str(&table));
        let page = include_str!("../../../docs/commands/why.md");
        assert!(page.contains(&block), "{block}");
    }

    /// An empty list says nothing about objects that could not be read.
    #[test]
    fn what_was_not_read_is_not_called_free() {
        let all = shown(&stuck(&[], Vec::new()), Columns::Usual);
        let some = shown(&stuck(&["pods"], Vec::new()), Columns::Usual);
        assert_eq!(all, "Nothing is stuck.\n");
        assert!(
            some.contains("among the objects that could be read"),
            "{some}"
        );
    }
}
