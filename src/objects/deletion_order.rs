//! In which order claims of one namespace and name were deleted.
//!
//! Source: `GetBindVolumeToClaim` in `k8s.io/component-helpers/storage/volume` of Kubernetes, and
//! `provisionClaimOperation` of external-provisioner's library, write the `resourceVersion` of the
//! claim into the volume's `claimRef`. The API server takes these versions from one counter.

use super::{Volume, trash::TrashRecord};
use k8s_openapi::jiff::Timestamp;
use std::cmp::Ordering;

/// What shows whether the claim of a volume was deleted before or after another claim of its
/// namespace and name.
#[derive(Clone, Copy, Debug)]
pub struct Deletion {
    /// The `resourceVersion` of the claim when the volume was bound to it. A claim is created after
    /// the deletion of the earlier one of its name, so it has a later version, which no clock and
    /// no delay of a controller changes. None after a restore that failed,
    /// or to another namespace.
    bound_at: Option<u64>,
    deleted_at: Timestamp,
}

impl Deletion {
    /// Reads what a volume and its record show.
    pub fn of(volume: &Volume, record: &TrashRecord) -> Self {
        Self {
            deleted_at: listed_at(record.deleted_at),
            ..Self::unrecorded(volume)
        }
    }

    /// Reads what a volume shows whose record is not of its last claim.
    pub fn unrecorded(volume: &Volume) -> Self {
        let claim = volume.claimed_by();
        let version = claim.and_then(|claim| claim.resource_version.as_ref());
        Self {
            bound_at: version.and_then(|version| version.to_string().parse().ok()),
            deleted_at: listed_at(None),
        }
    }

    /// Returns whether this deletion was later than the other one; false if that is not known.
    fn is_after(&self, other: &Self) -> bool {
        let order = match (self.bound_at, other.bound_at) {
            (Some(own), Some(other)) => own.cmp(&other),
            _ => self.deleted_at.cmp(&other.deleted_at),
        };
        order == Ordering::Greater
    }
}

/// Returns the element whose claim was deleted last; none if `all` is empty.
///
/// # Errors
/// Two volumes, if it is not known which of their claims was deleted last.
pub fn latest<T>(all: &[T], deletion: impl Fn(&T) -> Deletion) -> Result<Option<&T>, [&T; 2]> {
    let later = |best, each| {
        if deletion(each).is_after(&deletion(best)) {
            each
        } else {
            best
        }
    };
    let Some(last) = all.iter().reduce(later) else {
        return Ok(None);
    };
    let mut others = all.iter().filter(|each| !std::ptr::eq(*each, last));
    match others.find(|other| !deletion(last).is_after(&deletion(other))) {
        None => Ok(Some(last)),
        Some(other) => Err([last, other]),
    }
}

/// Returns the time by which a list of deletions is sorted. A deletion whose time is not recorded
/// yet counts as the latest one.
pub fn listed_at(deleted_at: Option<Timestamp>) -> Timestamp {
    deleted_at.unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(all: &[(Option<u64>, Option<i64>)]) -> Result<Option<usize>, Vec<usize>> {
        let all = all.iter().enumerate();
        let all = all.map(|(index, (bound_at, seconds))| {
            let time = seconds.map(|each| Timestamp::from_second(each).expect("a time"));
            let deletion = Deletion {
                bound_at: *bound_at,
                deleted_at: listed_at(time),
            };
            (index, deletion)
        });
        let all: Vec<_> = all.collect();
        let found = latest(&all, |(_, deletion)| *deletion);
        let index = |found: &(usize, Deletion)| found.0;
        let found = found.map(|found| found.map(index));
        found.map_err(|two| {
            let mut two = two.map(index).to_vec();
            two.sort_unstable();
            two
        })
    }

    #[test]
    fn the_version_of_the_claim_comes_before_the_recorded_time() {
        assert_eq!(order(&[]), Ok(None));
        assert_eq!(order(&[(None, None)]), Ok(Some(0)));
        assert_eq!(
            order(&[(Some(10), Some(1)), (Some(9), Some(2))]),
            Ok(Some(0))
        );
        assert_eq!(order(&[(None, Some(1)), (Some(9), Some(2))]), Ok(Some(1)));
        assert_eq!(order(&[(None, None), (Some(9), Some(2))]), Ok(Some(0)));
        assert_eq!(order(&[(Some(8), None), (Some(9), None)]), Ok(Some(1)));
    }

    #[test]
    fn without_evidence_the_order_is_not_known() {
        assert_eq!(order(&[(None, Some(1)), (None, Some(1))]), Err(vec![0, 1]));
        assert_eq!(order(&[(None, None), (Some(9), None)]), Err(vec![0, 1]));
        let earlier = (None, Some(0));
        let tie = [earlier, (None, Some(1)), (None, Some(1))];
        assert_eq!(order(&tie), Err(vec![1, 2]));
        // By version, the second was deleted after the first; by time, the first after the third,
        // and the third after the second.
        let circle = [(Some(1), Some(3)), (Some(2), Some(1)), (None, Some(2))];
        assert!(order(&circle).is_err());
    }
}
