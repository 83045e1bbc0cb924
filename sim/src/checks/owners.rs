//! S4: which owners Volume Warden gives to claims.

use super::{Found, claims::LATE, ledger::Ledger};
use crate::{
    json::{name, owners, text, uid},
    replica::SERVICE_ACCOUNT,
};
use volume_warden_apiserver_model::Change;

/// S4: an owner that Volume Warden adds exists, or existed when the write began.
pub fn check(ledger: &Ledger, now: u64, change: &Change) -> Found {
    if change.plural != "persistentvolumeclaims" || change.user != SERVICE_ACCOUNT {
        return None;
    }
    let after = change.after.as_ref()?;
    let before = change
        .before
        .as_ref()
        .map_or(&[][..], |before| owners(before));
    let added = owners(after).iter().filter(|owner| !before.contains(owner));
    let unknown = added.map(|owner| text(owner, "/uid")).find(|owner| {
        let lives = ledger
            .all("pods")
            .chain(ledger.all("statefulsets"))
            .any(|each| uid(each) == *owner);
        !lives && ledger.gone(owner).is_none_or(|(gone, _)| gone + LATE < now)
    })?;
    Some((
        "S4",
        format!(
            "the claim {} got the owner {unknown}, which does not exist",
            name(after)
        ),
    ))
}
