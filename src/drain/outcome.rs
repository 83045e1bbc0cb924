//! What came of it.

use super::InUse;
use std::fmt;

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Claims that were read last.
    pub claims: usize,
    /// Volumes that were read last.
    pub volumes: usize,
    /// Objects that are rid of what we wrote.
    pub changed: usize,
    /// Objects that would be, were this no dry run.
    pub withheld: usize,
    /// Objects that the API server did not let us change.
    pub failed: usize,
    /// Objects on which another client wrote it again.
    pub returned: usize,
    /// Objects that others wrote at each try, or about which the API server did not answer.
    pub unsettled: usize,
    /// Objects that are being deleted and in use.
    pub in_use: Vec<InUse>,
    /// Webhook configurations that are there again.
    pub configurations: Vec<&'static str>,
}

impl Outcome {
    /// What else is left than objects in use, in words; nothing if there is none.
    pub fn trouble(&self) -> Option<String> {
        let mut left = Vec::new();
        if self.failed > 0 {
            left.push(format!("{} objects could not be changed", self.failed));
        }
        if self.unsettled > 0 {
            left.push(format!(
                "{} objects kept changing, or were not answered for",
                self.unsettled
            ));
        }
        if self.returned > 0 {
            left.push(format!(
                "on {} objects it was written again, by an older replica or, with --in-tree=off, by Kubernetes' own controllers, which are \
                 on then",
                self.returned
            ));
        }
        if !self.configurations.is_empty() {
            left.push(format!(
                "another client recreated {}",
                self.configurations.join(", ")
            ));
        }
        (!left.is_empty()).then(|| left.join("; "))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            claims, volumes, ..
        } = self;
        write!(f, "{claims} claims and {volumes} volumes read, ")?;
        let is = if self.withheld > 0 {
            write!(f, "{} would be changed; ", self.withheld)?;
            "would be"
        } else {
            write!(f, "{} changed; ", self.changed)?;
            "is"
        };
        let in_use = self.in_use.len();
        let other = self.failed + self.returned + self.unsettled + self.configurations.len();
        match (in_use, other) {
            (0, 0) => write!(f, "nothing {is} left"),
            (_, 0) => write!(f, "left: {in_use} being deleted and in use"),
            (0, _) => write!(f, "left: {other}"),
            _ => write!(f, "left: {other}, and {in_use} being deleted and in use"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_what_is_left() {
        let mut outcome = Outcome {
            claims: 3,
            volumes: 2,
            changed: 4,
            ..Outcome::default()
        };
        assert_eq!(
            outcome.to_string(),
            "3 claims and 2 volumes read, 4 changed; nothing is left"
        );
        assert_eq!(outcome.trouble(), None);
        outcome.in_use.push(InUse {
            object: String::new(),
            by: String::new(),
        });
        assert_eq!(
            outcome.to_string(),
            "3 claims and 2 volumes read, 4 changed; left: 1 being deleted and in use"
        );
        assert_eq!(outcome.trouble(), None);
        outcome.returned = 2;
        assert!(
            outcome
                .trouble()
                .is_some_and(|words| words.contains("on 2 objects it was written again"))
        );
    }
}
