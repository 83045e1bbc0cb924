//! The treemap as SVG.

use super::{
    locations::Location,
    text,
    tiles::{Tile, tiles},
    treemap::Rect,
};
use maud::{Markup, html};

/// The picture for windows of each width: its class in the style sheet, and its size.
const SIZES: [(&str, f64, f64); 3] = [
    ("narrow", 344.0, 600.0),
    ("medium", 720.0, 440.0),
    ("wide", 1120.0, 440.0),
];
/// Width of a character, height of a line, and space on both sides of a text, in pixels.
const CHARACTER: f64 = 7.2;
const LINE: f64 = 16.0;
const SPACE: f64 = 6.0;
/// Minimum width, in characters, of a tile that shows a name which has to be cut.
const SHORTEST: usize = 7;

/// Returns the picture in each size. The style sheet displays one of them.
pub(super) fn picture(locations: &[Location<'_>]) -> Markup {
    html! {
        @for (class, width, height) in SIZES {
            @let area = Rect { width, height, ..Rect::default() };
            @let view = format!("0 0 {width} {height}");
            svg class=(format!("treemap {class}")) viewBox=(view) role="img" aria-labelledby="map-title map-text" {
                @for tile in tiles(locations, area) { (drawn(&tile)) }
            }
        }
    }
}

/// Draws a tile, with as many lines of text as fit. A nested `svg` clips what is wider than
/// expected.
fn drawn(tile: &Tile) -> Markup {
    let [x, y, width, height] = [
        tile.rect.x + 1.0,
        tile.rect.y + 1.0,
        (tile.rect.width - 2.0).max(0.5),
        (tile.rect.height - 2.0).max(0.5),
    ]
    .map(|number| format!("{number:.1}"));
    html! {
        svg x=(x) y=(y) width=(width) height=(height) {
            title { (tile.names.join(", ")) ", " (tile.numbers.join(", ")) }
            rect class=(format!("step{}", tile.step)) width="100%" height="100%" rx="3" {}
            @for (line, number) in fitting(tile).iter().zip(1..) {
                text x=(SPACE) y=(f64::from(number) * LINE) { (line) }
            }
        }
    }
}

/// The lines of text before the first one that does not fit into the tile. A name that is too wide
/// is cut, unless fewer than [`SHORTEST`] characters fit.
fn fitting(tile: &Tile) -> Vec<String> {
    let characters = ((tile.rect.width - 2.0 * SPACE) / CHARACTER).max(0.0) as usize;
    let number = ((tile.rect.height - SPACE) / LINE).max(0.0) as usize;
    let fits = |line: &&String| line.chars().count() <= characters;
    let names = tile.names.iter().map(|name| {
        if fits(&name) {
            Some(name.clone())
        } else if characters < SHORTEST {
            None
        } else {
            Some(text::bounded(name, characters - 1))
        }
    });
    let numbers = tile
        .numbers
        .iter()
        .map(|line| Some(line).filter(fits).cloned());
    let lines = names.chain(numbers).take(number);
    lines.map_while(|line| line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_does_not_fit_is_cut_or_left_out() {
        let fitting = |width, height| {
            let names = ["documents", "fast"].map(str::to_owned).into();
            let numbers = ["10 GiB", "50 % not used"].map(str::to_owned);
            let rect = Rect {
                width,
                height,
                ..Rect::default()
            };
            super::fitting(&Tile {
                rect,
                names,
                numbers,
                step: 0,
            })
        };
        assert_eq!(
            fitting(110.0, 70.0),
            ["documents", "fast", "10 GiB", "50 % not used"]
        );
        assert_eq!(fitting(100.0, 70.0), ["documents", "fast", "10 GiB"]);
        assert_eq!(fitting(100.0, 30.0), ["documents"]);
        assert_eq!(fitting(70.0, 40.0), ["documen…", "fast"]);
        for (width, height) in [(50.0, 50.0), (100.0, 20.0), (0.0, 0.0)] {
            assert!(fitting(width, height).is_empty(), "{width}, {height}");
        }
    }
}
