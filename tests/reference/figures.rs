//! The figures that README and the page about sizing take from the benchmarks.

const BENCHMARKS: &str = include_str!("../../benches/README.md");
const SIZING: &str = include_str!("../../docs/operations/sizing.md");
const README: &str = include_str!("../../README.md");
const UNITS: [&str; 6] = ["ms", "MB", "MiB", "KB", "%", "calls"];

/// A limit, which no benchmark measures.
const LIMIT: &str = "12 calls";

#[test]
fn the_figures_of_the_page_about_sizing_are_in_the_benchmarks() {
    let measured = figures(BENCHMARKS);
    let page = figures(SIZING);
    assert!(page.len() > 20, "{page:?}");
    let known = |figure: &String| measured.contains(figure) || figure == LIMIT;
    let unknown: Vec<_> = page.iter().filter(|figure| !known(figure)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn the_row_of_the_readme_is_in_the_benchmarks() {
    let few = slower_rates("**3000 claims among 3000 pods**");
    let many = slower_rates("**3000 claims among 20000 pods**");
    let cells = few.into_iter().zip(many);
    let cells: Vec<_> = cells.map(|(few, many)| format!("{few} / {many}")).collect();
    let row = format!("| claims per second | {} |", cells.join(" | "));
    assert!(README.contains(&row), "{row}");
}

/// Of each program in the table below this title, the claims in a second, in its slower run.
fn slower_rates(title: &str) -> [u64; 3] {
    let section = BENCHMARKS.split(title).nth(1);
    let section = section.and_then(|rest| rest.split("\n\n").nth(1));
    let section = section.expect("a table");
    let programs = ["volume-warden", "in-tree-default", "in-tree-unlimited"];
    programs.map(|program| {
        let prefix = format!("| {program} |");
        let rows = section
            .lines()
            .filter_map(|line| line.strip_prefix(&*prefix));
        let rates = rows.filter_map(|row| row.split('|').nth(1)?.trim().parse().ok());
        rates.min().expect("a row")
    })
}

/// Each number with its unit, without thousands separators and signs.
fn figures(text: &str) -> Vec<String> {
    let words = text.split([' ', '\n', '|', '(', ')', ';', ':']);
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let figures = words.windows(2).filter_map(|pair| {
        let number = pair[0].replace(',', "");
        let number = number.trim_start_matches('+');
        let unit = pair[1].trim_end_matches([',', '.']);
        let is_number = number.starts_with(|first: char| first.is_ascii_digit());
        (is_number && UNITS.contains(&unit)).then(|| format!("{number} {unit}"))
    });
    figures.collect()
}
