//! Aims, and whether they were reached.

/// The aims of a part.
#[derive(Default)]
pub struct Aims(Vec<Aim>);

struct Aim {
    wanted: String,
    reached: String,
    missed: bool,
}

impl Aims {
    /// Adds an aim: `value`, in `unit`, must be at least `limit`.
    pub fn at_least(self, what: &str, limit: f64, value: f64, unit: &str) -> Self {
        let wanted = format!("{what} ≥ {limit} {unit}");
        self.and(wanted, value, unit, value >= limit)
    }

    /// Adds an aim: `value`, in `unit`, must be at most `limit`.
    pub fn at_most(self, what: &str, limit: f64, value: f64, unit: &str) -> Self {
        let wanted = format!("{what} ≤ {limit} {unit}");
        self.and(wanted, value, unit, value <= limit)
    }

    fn and(mut self, wanted: String, value: f64, unit: &str, kept: bool) -> Self {
        let reached = format!("{value:.2} {unit}");
        self.0.push(Aim {
            wanted,
            reached,
            missed: !kept,
        });
        self
    }

    /// Whether an aim was missed.
    pub fn missed(&self) -> bool {
        self.0.iter().any(|aim| aim.missed)
    }

    /// Prints the aims as rows of a table.
    pub fn print(&self, part: &str) {
        for aim in &self.0 {
            let verdict = if aim.missed { "MISSED" } else { "kept" };
            println!("| {part} | {} | {} | {verdict} |", aim.wanted, aim.reached);
        }
    }
}
