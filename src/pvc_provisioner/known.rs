//! What the watches tell, and what a live list tells, about one claim's name.

use super::{asked::volume_for, rule::User};
use crate::{
    cluster::{Feed, Feeds, Store},
    objects::{Claim, ObjectName, Pod},
};
use std::sync::Arc;

/// The feeds of this component.
#[derive(Clone)]
pub struct Known {
    /// Claims, as last told.
    pub claims: Arc<Feed<Claim>>,
    /// Pods that name or ask for a claim, as last told.
    pub pods: Arc<Feed<Pod>>,
}

impl From<&Feeds> for Known {
    fn from(feeds: &Feeds) -> Self {
        Self {
            claims: feeds.claims.clone(),
            pods: feeds.pods.clone(),
        }
    }
}

impl Known {
    /// The claim of that name, unless a write of ours has outdated what is known of it: then there is more to come.
    ///
    /// # Errors
    /// When there is more to come.
    pub fn claim(&self, name: &ObjectName) -> Result<Option<Arc<Claim>>, Outdated> {
        let claims = self.claims.read();
        match (claims.get(name), claims.last_told(name)) {
            (None, Some(_)) => Err(Outdated),
            (claim, _) => Ok(claim),
        }
    }

    /// The pods that the watch knows to name the claim.
    pub fn users(&self, claim: &ObjectName) -> Vec<User> {
        users(&self.pods.read(), claim)
    }

    /// The names of the pods that ask for the claim.
    pub fn askers(&self, claim: &ObjectName) -> Vec<ObjectName> {
        let users = self.users(claim).into_iter();
        users
            .filter(|user| user.asks.is_some())
            .map(|user| ObjectName::new(claim.namespace.clone(), &*user.name))
            .collect()
    }
}

/// See [`Known::claim`].
#[derive(Debug)]
pub struct Outdated;

/// The pods in `store` that name the claim.
pub fn users(store: &Store<Pod>, claim: &ObjectName) -> Vec<User> {
    let names = store.names_referring_to(claim).iter();
    names
        .filter_map(|name| Some(user(name, &*store.last_told(name)?, claim)))
        .collect()
}

/// The pod, as one that names the claim.
pub fn user(name: &ObjectName, pod: &Pod, claim: &ObjectName) -> User {
    let wishes = pod.wishes.as_deref();
    User {
        deleting: wishes.is_some_and(|wishes| wishes.deleting),
        started: wishes.is_some_and(|wishes| !wishes.pending),
        created: wishes.map_or(0, |wishes| wishes.created),
        name: (&*name.name).into(),
        uid: pod.uid.clone(),
        asks: wishes
            .and_then(|wishes| volume_for(wishes, &claim.name))
            .map(Into::into),
    }
}
