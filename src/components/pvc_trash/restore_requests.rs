//! Which Pending claims request the data of a deleted claim.

use crate::{
    cluster::{Change, ReferrerIndex},
    objects::{Claim, CompactText, ObjectName},
};
use parking_lot::Mutex;

/// An index of the Pending claims that request the data of a deleted claim, by the volume that they
/// name.
#[derive(Default)]
pub struct RestoreRequests(Mutex<ReferrerIndex<CompactText>>);

impl RestoreRequests {
    /// Updates the index after a change of a claim.
    pub fn update(&self, change: &Change<'_, Claim>) {
        let before = change.old.and_then(|claim| requested(claim));
        let now = change.new.and_then(|claim| requested(claim));
        if before != now {
            self.0.lock().replace(before, now.cloned(), change.name);
        }
    }

    /// Returns the claims that request the volume: those of one namespace, or of all.
    pub fn of(&self, volume: &str, namespace: Option<&str>) -> Vec<ObjectName> {
        let index = self.0.lock();
        let claims = index.of(&CompactText::from(volume));
        let within = |claim: &&ObjectName| namespace.is_none_or(|only| *claim.namespace == *only);
        claims.filter(within).cloned().collect()
    }
}

/// Returns the volume whose data the claim requests. None unless the claim has the annotation
/// `undelete`, names a volume, is Pending and is not being deleted.
pub fn requested(claim: &Claim) -> Option<&CompactText> {
    let requests = claim
        .rare
        .trash
        .as_deref()
        .is_some_and(|trash| trash.undelete.is_some());
    let waits = claim.awaits_volume() && !claim.volume_name.is_empty();
    (requests && waits).then_some(&claim.volume_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cluster::Feed, objects::keys::UNDELETE};
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn a_claim_requests_a_volume_until_it_is_bound_or_deleted() {
        let claim = |volume: &str, phase: &str| {
            let claim = json!({
                "metadata": {"namespace": "ns", "name": "c", "annotations": {UNDELETE: ""}},
                "spec": {"volumeName": volume}, "status": {"phase": phase},
            });
            serde_json::from_value(claim).expect("a claim")
        };
        let (claims, index) = (Feed::filled(vec![]), Arc::new(RestoreRequests::default()));
        let updated = index.clone();
        claims.listen(move |change| updated.update(change));
        let requesting = |volume: &str| index.of(volume, None).len();
        claims.deliver(claim("one", "Pending"), true);
        assert_eq!((requesting("one"), requesting("two")), (1, 0));
        assert_eq!(index.of("one", Some("other")), []);
        claims.deliver(claim("two", "Pending"), true);
        assert_eq!((requesting("one"), requesting("two")), (0, 1));
        claims.deliver(claim("two", "Bound"), true);
        assert_eq!(requesting("two"), 0);
        claims.deliver(claim("two", "Pending"), true);
        claims.deliver(claim("two", "Pending"), false);
        assert_eq!(requesting("two"), 0);
    }
}
