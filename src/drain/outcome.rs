//! The result of `drain`, and its last line of output.

use super::{InUse, Kept};
use std::fmt;

/// The result of one run of `drain`.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Number of claims in the last read.
    pub claims: usize,
    /// Number of volumes in the last read.
    pub volumes: usize,
    /// Number of objects from which something was removed.
    pub changed: usize,
    /// Number of objects from which something would be removed without `--dry-run`.
    pub withheld: usize,
    /// Number of objects that the API server refused to change.
    pub failed: usize,
    /// Number of objects on which another client wrote again what `drain` had removed. `drain`
    /// leaves them unchanged.
    pub returned: usize,
    /// Number of objects that other clients changed at each attempt, or about which the API server
    /// did not answer.
    pub unfinished: usize,
    /// Objects that are being deleted and in use, and therefore keep their finalizer.
    pub in_use: Vec<InUse>,
    /// Volumes on which the writes of pvc-trash are left, because their data would be lost or could
    /// not be restored otherwise.
    pub kept: Vec<Kept>,
    /// Webhook configurations that exist at the end, because another client has created them.
    pub configurations: Vec<&'static str>,
}

impl Outcome {
    /// Describes why the drain is incomplete; none if it is complete. Objects in use and volumes
    /// that pvc-trash keeps do not make it incomplete.
    pub fn incomplete_reason(&self) -> Option<String> {
        let mut left = Vec::new();
        if self.failed > 0 {
            left.push(format!(
                "{} objects could not be changed, because the API server refused it",
                self.failed
            ));
        }
        if self.unfinished > 0 {
            left.push(format!(
                "{} objects kept changing, or the API server did not answer about them",
                self.unfinished
            ));
        }
        if self.returned > 0 {
            left.push(format!(
                "on {} objects another client wrote again what drain had removed: an older replica \
                 or, with --in-tree=off, a built-in controller of Kubernetes that is still enabled",
                self.returned
            ));
        }
        if !self.configurations.is_empty() {
            left.push(format!(
                "another client created {}",
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
        let other = self.failed + self.returned + self.unfinished + self.configurations.len();
        match (in_use, other) {
            (0, 0) if self.kept.is_empty() => write!(f, "nothing {is} left"),
            (0, 0) => write!(f, "nothing else {is} left"),
            (_, 0) => write!(f, "left: {in_use} being deleted and in use"),
            (0, _) => write!(f, "left: {other}"),
            _ => write!(f, "left: {other}, and {in_use} being deleted and in use"),
        }?;
        match self.kept.len() {
            0 => Ok(()),
            kept => write!(f, "; what pvc-trash wrote is left on {kept} volumes"),
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
        assert_eq!(outcome.incomplete_reason(), None);
        outcome.in_use.push(InUse {
            object: String::new(),
            by: String::new(),
        });
        assert_eq!(
            outcome.to_string(),
            "3 claims and 2 volumes read, 4 changed; left: 1 being deleted and in use"
        );
        assert_eq!(outcome.incomplete_reason(), None);
        outcome.kept.push(Kept {
            object: String::new(),
            why: String::new(),
        });
        assert_eq!(
            outcome.to_string(),
            "3 claims and 2 volumes read, 4 changed; left: 1 being deleted and in use; what \
             pvc-trash wrote is left on 1 volumes"
        );
        assert_eq!(outcome.incomplete_reason(), None);
        outcome.in_use.clear();
        assert_eq!(
            outcome.to_string(),
            "3 claims and 2 volumes read, 4 changed; nothing else is left; what pvc-trash \
             wrote is left on 1 volumes"
        );
        outcome.returned = 2;
        assert!(
            outcome
                .incomplete_reason()
                .is_some_and(|words| words.contains("on 2 objects another client wrote again"))
        );
    }
}
