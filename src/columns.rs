//! Formats tables, their cells and ages for the terminal, much as `kubectl` does.

use k8s_openapi::jiff::Timestamp;

/// Formats each row as one line, with columns that are aligned and two spaces apart. A line does
/// not end with spaces.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        // The formatter of the standard library panics for a width above 65,535.
        let spaces = |cell: &str, width: usize| " ".repeat(width - cell.chars().count());
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| {
            if column + 1 == row.len() {
                cell.clone()
            } else {
                format!("{cell}{}", spaces(cell, *width))
            }
        });
        let cells: Vec<_> = cells.collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Lists the first of these texts, at most as many as `most`, and the number of the others.
pub(crate) fn first(all: &[String], most: usize) -> String {
    let first = all[..all.len().min(most)].join(", ");
    match all.len().saturating_sub(most) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Formats the time since `since` as [`span`] does; `0s` if `since` is in the future.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = (now.as_second() - since.as_second()).max(0);
    span(seconds.unsigned_abs())
}

/// Formats a number of seconds in the largest unit of which there are at least two, rounded down:
/// `119s`, `2m`, `2h`, `2d`.
pub(crate) fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_aligned() {
        let rows = [["a", "bb", "c"], ["aaa", "b", ""]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(aligned(&rows), "a    bb  c\naaa  b");
        let long = "ä".repeat(70_000);
        let rows = [
            vec![long.clone(), "b".to_owned()],
            vec!["a".to_owned(), long],
        ];
        let length = |line: &str| line.chars().count();
        let lines: Vec<_> = aligned(&rows).lines().map(length).collect();
        assert_eq!(lines, [70_003, 140_002]);
    }

    #[test]
    fn the_others_are_counted() {
        let all = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(first(&all, 3), "a, b, c");
        assert_eq!(first(&all, 1), "a and 2 more");
        assert_eq!(first(&[], 1), "");
    }
}
