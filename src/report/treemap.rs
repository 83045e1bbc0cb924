//! The layout of a treemap: rectangles whose areas are proportional to values, as close to squares
//! as possible (Bruls, Huizing and van Wijk, "Squarified Treemaps", 2000).

/// A rectangle, in the units of the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Rect {
    pub(super) fn area(self) -> f64 {
        self.width * self.height
    }
}

/// Divides the rectangle into one for each value. The values are positive; the shapes are best if
/// the largest is the first.
pub(super) fn squarified(values: &[f64], within: Rect) -> Vec<Rect> {
    let total: f64 = values.iter().sum();
    let scale = within.area() / total;
    let areas: Vec<f64> = values.iter().map(|value| value * scale).collect();
    let (mut found, mut rest, mut areas) = (Vec::new(), within, &*areas);
    while !areas.is_empty() {
        let side = rest.width.min(rest.height);
        let is_better = |end: &usize| worst(&areas[..*end], side) <= worst(&areas[..end - 1], side);
        let strip = (2..=areas.len()).take_while(is_better).last().unwrap_or(1);
        rest = fill(&areas[..strip], rest, &mut found);
        areas = &areas[strip..];
    }
    found
}

/// The largest ratio of two sides if these areas fill a strip along a side of this length.
fn worst(areas: &[f64], side: f64) -> f64 {
    let depth = areas.iter().sum::<f64>() / side;
    let ratios = areas.iter().map(|area| depth * depth / area);
    ratios.fold(0.0, |worst, ratio| worst.max(ratio).max(1.0 / ratio))
}

/// Fills a strip along the shorter side with these areas, and returns the rest of the rectangle.
fn fill(areas: &[f64], within: Rect, found: &mut Vec<Rect>) -> Rect {
    let upright = within.width >= within.height;
    let (long, side) = if upright {
        (within.width, within.height)
    } else {
        (within.height, within.width)
    };
    let total: f64 = areas.iter().sum();
    // Only rounding can make the strip larger than the rest of the rectangle.
    let depth = (total / side).min(long);
    let mut at = 0.0;
    for area in areas {
        let length = side * area / total;
        let (x, y) = (within.x, within.y);
        found.push(if upright {
            Rect {
                x,
                y: y + at,
                width: depth,
                height: length,
            }
        } else {
            Rect {
                x: x + at,
                y,
                width: length,
                height: depth,
            }
        });
        at += length;
    }
    let Rect {
        x,
        y,
        width,
        height,
    } = within;
    if upright {
        Rect {
            x: x + depth,
            width: width - depth,
            ..within
        }
    } else {
        Rect {
            y: y + depth,
            height: height - depth,
            ..within
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PICTURE: Rect = Rect {
        x: 10.0,
        y: 20.0,
        width: 600.0,
        height: 400.0,
    };

    fn overlap(a: Rect, b: Rect) -> f64 {
        let width = (a.x + a.width).min(b.x + b.width) - a.x.max(b.x);
        let height = (a.y + a.height).min(b.y + b.height) - a.y.max(b.y);
        width.max(0.0) * height.max(0.0)
    }

    fn is_inside(rect: Rect) -> bool {
        let (right, bottom) = (rect.x + rect.width, rect.y + rect.height);
        rect.x >= 9.999 && rect.y >= 19.999 && right <= 610.001 && bottom <= 420.001
    }

    /// Checks all properties of a layout.
    fn check(values: &[f64]) {
        let rects = squarified(values, PICTURE);
        assert_eq!(rects.len(), values.len());
        let total: f64 = values.iter().sum();
        for (value, rect) in values.iter().zip(&rects) {
            let expected = value / total * PICTURE.area();
            assert!(
                (rect.area() - expected).abs() < 0.01,
                "{values:?}: {rect:?}"
            );
            assert!(is_inside(*rect), "{values:?}: {rect:?}");
        }
        for (index, a) in rects.iter().enumerate() {
            let overlaps = rects[index + 1..].iter().map(|b| overlap(*a, *b));
            assert!(overlaps.sum::<f64>() < 0.01, "{values:?}: {a:?}");
        }
    }

    #[test]
    fn areas_are_proportional_inside_the_picture_and_do_not_overlap() {
        check(&[]);
        check(&[7.0]);
        check(&[6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0]);
        check(&[1.0, 2.0, 1e6]);
        check(&[1e18, 1.0, 1.0]);
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let number = random.usize(1..60);
            let mut values: Vec<f64> = (0..number).map(|_| random.f64().powi(4) + 1e-3).collect();
            values.sort_by(|a, b| b.total_cmp(a));
            check(&values);
        }
    }

    /// The example of the paper.
    #[test]
    fn shapes_are_close_to_squares() {
        let within = Rect {
            width: 6.0,
            height: 4.0,
            ..Rect::default()
        };
        let rects = squarified(&[6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0], within);
        let ratio = |rect: &Rect| (rect.width / rect.height).max(rect.height / rect.width);
        let worst = rects.iter().map(ratio).fold(0.0, f64::max);
        assert!(worst < 2.8, "{worst}: {rects:?}");
        assert_eq!(
            rects[0],
            Rect {
                width: 3.0,
                height: 2.0,
                ..Rect::default()
            }
        );
    }
}
