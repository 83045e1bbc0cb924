//! The claims that a workload or a custom resource names. Volume Warden does not watch these
//! objects, so it reads again from time to time whether one still names the claim.

use crate::{
    cluster::Requeue,
    hashing::HashMap,
    objects::{CompactText, ObjectName},
};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Delay until it is read again whether an object names the claim, also if the claim is reconciled
/// earlier: the resync enqueues it every ten minutes.
const NAMED_AGAIN: Duration = Duration::from_secs(3600);

/// The claims that an object named at the last read.
#[derive(Default)]
pub struct NamedClaims(Mutex<HashMap<ObjectName, Named>>);

struct Named {
    uid: CompactText,
    until: Instant,
    /// What names the claim.
    by: String,
}

impl NamedClaims {
    /// Remembers that the object names the claim. Returns when that is read again.
    pub fn remember(&self, name: &ObjectName, uid: &CompactText, by: &str) -> Requeue {
        let named = Named {
            uid: uid.clone(),
            until: Instant::now() + NAMED_AGAIN,
            by: by.to_owned(),
        };
        self.0.lock().insert(name.clone(), named);
        wait(NAMED_AGAIN, by)
    }

    /// Returns when it is read again whether an object names the claim; none if it is to be read
    /// now.
    pub fn rest(&self, name: &ObjectName, uid: &CompactText) -> Option<Requeue> {
        let all = self.0.lock();
        let named = all.get(name).filter(|named| named.uid == *uid)?;
        let rest = named.until.checked_duration_since(Instant::now())?;
        (!rest.is_zero()).then(|| wait(rest, &named.by))
    }

    /// Forgets the claims for which this is false.
    pub fn retain(&self, exists: impl Fn(&ObjectName) -> bool) {
        self.0.lock().retain(|name, _| exists(name));
    }
}

fn wait(delay: Duration, by: &str) -> Requeue {
    let why = format!("the claim does not expire, because {by} names it");
    Requeue::After(delay, why)
}
