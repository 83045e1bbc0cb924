//! S12: how long a volume stays reserved for a claim that was deleted.

use super::{Found, ledger::Ledger, trash::record};
use crate::{json::name, replica::SERVICE_ACCOUNT};
use volume_warden_apiserver_model::Change;

/// Milliseconds within which a reservation ends after the deletion of its claim and the last fault.
/// Without the deletion, it ends after five minutes. A replica that does not notice a silent watch
/// needs longer than this, so these histories are left out.
const MOST: u64 = 120_000;

/// Looks at a change of a volume that ends its reservation.
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
    let (gone, claim) = ledger.gone(before.reserved_for.as_deref()?)?;
    (gone.max(faults.end) + MOST < now).then(|| {
        let (volume, claim) = (name(after), name(claim));
        let message = format!("the volume {volume} stayed reserved for the deleted claim {claim}");
        ("S12", message)
    })
}
