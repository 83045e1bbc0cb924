//! S12: how long a volume stays reserved for a claim that was deleted.

use super::{Found, ledger::Ledger, trash::record};
use crate::{json::name, replica::SERVICE_ACCOUNT};
use volume_warden_apiserver_model::Change;

/// Maximum time, in milliseconds, from the deletion of a claim and the last fault to the end of its
/// reservation. Without the deletion, a reservation ends after five minutes. Histories with silent
/// watches are excluded: a replica needs longer than this to detect a silent watch.
const MOST: u64 = 120_000;

/// Checks a change of a volume that ends its reservation.
pub fn check(ledger: &Ledger, now: u64, change: &Change) -> Found {
    let faults = &ledger.plan.faults;
    if change.user != SERVICE_ACCOUNT || faults.watch_silent > 0 {
        return None;
    }
    let before = record(change.before.as_deref()?)?;
    before.reserved_at?;
    let after = change.after.as_deref()?;
    if record(after).is_none_or(|record| record.reserved_at.is_some()) {
        return None;
    }
    let (removed, claim) = ledger.removed(before.reserved_for.as_deref()?)?;
    (removed.max(faults.end) + MOST < now).then(|| {
        let (volume, claim) = (name(after), name(claim));
        let message = format!("the volume {volume} stayed reserved for the deleted claim {claim}");
        ("S12", message)
    })
}
