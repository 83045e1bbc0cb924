//! Numbers and text from the cluster, as the page shows them.

pub(super) use crate::plain::bounded;

/// The units of sizes, each 1024 of the one before.
const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Formats a number of bytes in the largest unit of which there is at least one.
pub(super) fn size(bytes: f64) -> String {
    let (mut number, mut unit) = (bytes, 0);
    while number >= 1024.0 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && number < 100.0 && number.fract() != 0.0);
    format!("{number:.digits$} {}", UNITS[unit])
}

/// Formats the share of `part` in `whole` as a percentage.
pub(super) fn percent(part: f64, whole: f64) -> String {
    let percent = if whole > 0.0 {
        part / whole * 100.0
    } else {
        0.0
    };
    match percent {
        small if small > 0.0 && small < 1.0 => "<1 %".to_owned(),
        large if large > 99.0 && large < 100.0 => ">99 %".to_owned(),
        other => format!("{other:.0} %"),
    }
}

/// Formats the cost of a month; a dash if it is unknown.
pub(super) fn cost(cost: Option<f64>) -> String {
    cost.map_or_else(|| "–".to_owned(), |cost| grouped(&format!("{cost:.2}")))
}

/// Formats a number of objects.
pub(super) fn number(number: usize) -> String {
    grouped(&number.to_string())
}

/// Separates the thousands of a decimal number.
fn grouped(number: &str) -> String {
    let digits = number.find('.').unwrap_or(number.len());
    let mut grouped = String::new();
    for (index, character) in number.char_indices() {
        if index > 0 && index < digits && (digits - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(character);
    }
    grouped
}

/// Returns a name from the cluster, or a dash if it is empty.
pub(super) fn name(name: &str) -> String {
    if name.is_empty() {
        "–".to_owned()
    } else {
        bounded(name, 253)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        for (bytes, shown) in [
            (0.0, "0 B"),
            (1023.0, "1023 B"),
            (10_737_418_240.0, "10 GiB"),
            (1_610_612_736.0, "1.5 GiB"),
            (1_099_511_627_776.0, "1 TiB"),
            (123.4 * 1_073_741_824.0, "123 GiB"),
            (f64::powi(1024.0, 7), "1024 EiB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
    }

    #[test]
    fn thousands_are_separated() {
        let shown = [
            Some(0.5),
            Some(999.0),
            Some(1000.0),
            Some(1_234_567.891),
            None,
        ]
        .map(cost);
        assert_eq!(shown, ["0.50", "999.00", "1,000.00", "1,234,567.89", "–"]);
        assert_eq!([12, 123_456].map(number), ["12", "123,456"]);
    }

    #[test]
    fn a_small_part_is_not_nothing() {
        let shown = [
            (0.0, 0.0),
            (1.0, 1000.0),
            (999.5, 1000.0),
            (1.0, 2.0),
            (3.0, 3.0),
        ];
        let shown = shown.map(|(part, whole)| percent(part, whole));
        assert_eq!(shown, ["0 %", "<1 %", ">99 %", "50 %", "100 %"]);
    }

    #[test]
    fn text_is_bounded_and_has_no_control_characters() {
        assert_eq!(bounded("größe", 5), "größe");
        assert_eq!(bounded("größer", 5), "größe…");
        assert_eq!(bounded("\u{1b}[2J", 20), "\\u{1b}[2J");
        assert_eq!(bounded(&"\u{202e}".repeat(500), 8), "\\u{202e}…");
        assert_eq!(name(""), "–");
    }
}
