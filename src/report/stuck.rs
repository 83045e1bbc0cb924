//! What is stuck: claims and volumes whose deletion was requested and does not end, or failed.

use super::{Subject, command};
use crate::{
    hashing::HashMap,
    unused::{Row, State},
};
use k8s_openapi::jiff::Timestamp;

/// A deletion that was requested less than these seconds ago is not stuck, because deletions take
/// some time. This is also the default of `--min-age` of `why --stuck`.
const MIN_AGE: i64 = 60;

/// A claim or volume that is stuck.
pub(super) struct Stuck<'a> {
    /// The claim, or the volume without one.
    pub(super) row: &'a Row,
    /// Whether the volume is stuck, and not the claim.
    pub(super) is_volume: bool,
    /// Since when the claim or volume is stuck, if known.
    pub(super) since: Option<Timestamp>,
}

/// Returns what is stuck, at most once for each row.
pub(super) fn of<'a>(subject: &Subject<'_>, rows: &'a [Row]) -> Vec<Stuck<'a>> {
    let volumes = subject.listed.volumes.iter().filter_map(|volume| {
        let deleted = volume.metadata.deletion_timestamp.as_ref()?.0;
        Some((volume.metadata.name.as_deref()?, deleted))
    });
    let volumes: HashMap<&str, Timestamp> = volumes.collect();
    let lasts = |since: &Timestamp| subject.now.as_second() - since.as_second() >= MIN_AGE;
    let stuck = rows.iter().filter_map(|row| {
        let of_claim = matches!(row.state, State::Used | State::Unused);
        let of_volume = volumes.get(&*row.volume).copied().filter(lasts);
        let (is_volume, since) = match row.deleted.filter(lasts) {
            Some(since) => (!of_claim, Some(since)),
            None if of_volume.is_some() => (true, of_volume),
            None if row.state == State::Failed => (true, row.since),
            None => return None,
        };
        Some(Stuck {
            row,
            is_volume,
            since,
        })
    });
    stuck.collect()
}

impl Stuck<'_> {
    /// Returns the command that explains why the claim or volume is stuck.
    pub(super) fn command(&self) -> Option<String> {
        if self.is_volume {
            command::why_volume(&self.row.volume)
        } else {
            command::why_claim(&self.row.namespace, &self.row.claim)
        }
    }

    /// Describes the state of the stuck claim or volume in words.
    pub(super) fn state(&self) -> &'static str {
        match (self.row.state, self.is_volume) {
            (State::Failed, _) => "the deletion of the volume failed",
            (_, true) => "the volume is being deleted",
            (State::Used, false) => "the claim is being deleted, and a pod uses it",
            (_, false) => "the claim is being deleted",
        }
    }
}
