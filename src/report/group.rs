//! The groups of claims and volumes that the page lists, each line with its next command.

use super::{
    Subject,
    lines::{self, Line},
    trash::Records,
};
use crate::unused::{Row, State};

/// Maximum number of lines of a group.
pub(super) const MOST: usize = 200;

/// The lines of a group, the largest first.
pub(super) struct Group {
    /// The identifier of the group in the page.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// What the group contains, in a sentence.
    pub(super) about: &'static str,
    /// The titles of the columns that have another meaning in each group.
    pub(super) subject: &'static str,
    pub(super) since: &'static str,
    pub(super) note: &'static str,
    pub(super) lines: Vec<Line>,
    /// The number of lines that are left out, and the command that lists all.
    pub(super) left_out: usize,
    pub(super) list: Option<String>,
}

/// Returns the groups of claims and volumes, in the order of the page.
pub(super) fn groups(subject: &Subject<'_>, rows: &[Row]) -> [Group; 5] {
    let records = Records::new(subject);
    let flag = subject.flag();
    let list = |command: &str| {
        flag.as_ref()
            .map(|flag| format!("volume-warden {command} {flag}"))
    };
    let csv = || {
        flag.as_ref()
            .map(|flag| format!("volume-warden unused {flag} -o csv"))
    };
    let of = |state| rows.iter().filter(move |row| row.state == state);
    let released = of(State::Released).map(|row| lines::of_volume(subject, row));
    let available = of(State::Available).map(|row| lines::of_volume(subject, row));
    let unused = of(State::Unused).map(|row| lines::unused(subject, row, &records));
    let mut groups = [
        Group {
            id: "unused",
            title: "Unused claims",
            about: "No pod uses these claims now; finished pods do not count. A CronJob, or a \
                Deployment with 0 replicas, may use them again, and a claim without a pod may be \
                needed: find out who owns it before you delete it.",
            subject: "Claim",
            since: "Unused for",
            note: "Referenced by",
            list: csv(),
            ..Group::of(unused.collect())
        },
        Group {
            id: "stuck",
            title: "Stuck",
            about: "The deletion of these claims and volumes was requested more than a minute ago, \
                or failed. Their storage is also counted in their state.",
            subject: "Claim or volume",
            since: "Stuck for",
            note: "State",
            list: list("why --stuck"),
            ..Group::of(lines::stuck(subject, rows))
        },
        Group {
            id: "released",
            title: "Released volumes",
            about: "The claims of these volumes were deleted, and the volumes are kept with their \
                data.",
            subject: "Volume",
            since: "Released for",
            note: "Deleted claim",
            list: csv(),
            ..Group::of(released.collect())
        },
        Group {
            id: "trash",
            title: "In the trash",
            about: "These claims were deleted and can be restored. Their storage is free again when \
                their data is deleted.",
            subject: "Deleted claim",
            since: "Deleted for",
            note: "Data is deleted",
            list: list("trash"),
            ..Group::of(lines::in_trash(subject, rows, &records))
        },
        Group {
            id: "available",
            title: "Available volumes",
            about: "These volumes have no claim.",
            subject: "Volume",
            since: "Available for",
            note: "Reserved for",
            list: csv(),
            ..Group::of(available.collect())
        },
    ];
    for command in groups.iter_mut().flat_map(Group::commands) {
        command.push_str(subject.cluster_flags);
    }
    groups
}

impl Group {
    /// All commands of the group.
    fn commands(&mut self) -> impl Iterator<Item = &mut String> {
        let next = self.lines.iter_mut().filter_map(|line| line.next.as_mut());
        let next = next.flat_map(|next| {
            let undo = next.undo.as_mut().map(|(_, command)| command);
            [Some(&mut next.command), undo].into_iter().flatten()
        });
        next.chain(&mut self.list)
    }

    /// The number of claims and volumes, including those that are left out.
    pub(super) fn number(&self) -> usize {
        self.lines.len() + self.left_out
    }

    /// Creates a group with the largest [`MOST`] of these lines, without its titles and texts.
    fn of(mut lines: Vec<Line>) -> Self {
        lines.sort_by(|a, b| {
            b.bytes
                .total_cmp(&a.bytes)
                .then_with(|| a.subject.cmp(&b.subject))
        });
        let left_out = lines.len().saturating_sub(MOST);
        lines.truncate(MOST);
        Self {
            id: "",
            title: "",
            about: "",
            subject: "",
            since: "",
            note: "",
            lines,
            left_out,
            list: None,
        }
    }
}
