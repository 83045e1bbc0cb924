//! What users were told of already: once for each cause, not once for each look.

use super::{
    known::{Member, pod_name},
    rule::Fate,
};
use crate::{cluster::Announcement, objects::ObjectName};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What was told of one set's claims.
type Causes = HashSet<(Arc<str>, &'static str)>;

/// See the module.
#[derive(Debug, Default)]
pub struct Told {
    sets: Mutex<HashMap<ObjectName, (Box<str>, Causes)>>,
}

impl Told {
    /// The causes that now hold for this set, by claim and reason. Returns those that did not hold before.
    pub fn news(&self, set: &ObjectName, uid: &str, causes: Causes) -> Causes {
        let mut sets = self.lock();
        let before = sets.remove(set).filter(|(known, _)| **known == *uid);
        let before = before.map(|(_, causes)| causes).unwrap_or_default();
        let news = causes.difference(&before).cloned().collect();
        if !causes.is_empty() {
            sets.insert(set.clone(), (uid.into(), causes));
        }
        news
    }

    /// The set is gone.
    pub fn forget(&self, set: &ObjectName) {
        self.lock().remove(set);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectName, (Box<str>, Causes)>> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What users are told of a claim with this fate, regarding its set, if anything.
pub fn announcement(set: &ObjectName, member: &Member, fate: Fate) -> Option<Announcement> {
    let (claim, pod) = (&member.name.name, pod_name(&set.name, member.ordinal));
    let note = match fate {
        Fate::ConflictingController => format!(
            "claim \"{claim}\" is controlled by somebody else, so the retention policy is not applied to it"
        ),
        Fate::ClaimStale => format!(
            "pod \"{pod}\" cannot be created before claim \"{claim}\", which is being deleted, is gone"
        ),
        Fate::ClaimKept => format!(
            "claim \"{claim}\" was scaled away and has no pod, but is kept: nothing says that whenScaled was Delete while it was in \
             range. Delete it by hand if it is not for later"
        ),
        Fate::Kept | Fate::GoesWithSet | Fate::GoesWithPod | Fate::Stale | Fate::Terminating => {
            return None;
        }
    };
    Some(Announcement {
        reason: fate.name(),
        action: fate.name(),
        warning: fate != Fate::ClaimKept,
        note,
        related: Some(member.target(None).reference()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_news_once_for_as_long_as_it_holds() {
        let (told, web) = (Told::default(), ObjectName::new("ns", "web"));
        let causes = |claims: &[&str]| -> Causes {
            claims
                .iter()
                .map(|&claim| (claim.into(), "Cause"))
                .collect()
        };
        assert_eq!(told.news(&web, "1", causes(&["a"])), causes(&["a"]));
        assert_eq!(told.news(&web, "1", causes(&["a", "b"])), causes(&["b"]));
        assert_eq!(told.news(&web, "1", causes(&["b"])), causes(&[]));
        assert_eq!(
            told.news(&web, "1", causes(&["a"])),
            causes(&["a"]),
            "it had ended"
        );
        assert_eq!(
            told.news(&web, "2", causes(&["a"])),
            causes(&["a"]),
            "another set"
        );
        told.forget(&web);
        assert!(told.lock().is_empty());
    }
}
