//! Sets that are gone, remembered for a minute: the StatefulSet controller may still create claims for one that it has not heard the
//! end of.

use crate::objects::{ObjectName, StatefulSet};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

const REMEMBERED: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub struct Departed {
    sets: Mutex<HashMap<ObjectName, (Instant, Arc<StatefulSet>)>>,
}

impl Departed {
    /// The set is gone, and this was the last of it.
    pub fn remember(&self, name: ObjectName, set: Arc<StatefulSet>) {
        let mut sets = self.lock();
        sets.retain(|_, (since, _)| since.elapsed() < REMEMBERED);
        sets.insert(name, (Instant::now(), set));
    }

    /// The set of that name, if it went less than a minute ago.
    pub fn get(&self, name: &ObjectName) -> Option<Arc<StatefulSet>> {
        let sets = self.lock();
        let (since, set) = sets.get(name)?;
        (since.elapsed() < REMEMBERED).then(|| set.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectName, (Instant, Arc<StatefulSet>)>> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::stateful_set::StatefulSetWire;

    #[tokio::test(start_paused = true)]
    async fn a_set_is_remembered_for_a_minute() {
        let (departed, name) = (Departed::default(), ObjectName::new("ns", "web"));
        let set: Arc<StatefulSet> = Arc::new(StatefulSetWire::default().into());
        departed.remember(name.clone(), set.clone());
        tokio::time::advance(REMEMBERED / 2).await;
        assert_eq!(departed.get(&name), Some(set.clone()));
        tokio::time::advance(REMEMBERED).await;
        assert_eq!(departed.get(&name), None);
        departed.remember(ObjectName::new("ns", "other"), set);
        assert_eq!(departed.lock().len(), 1, "nothing is kept for ever");
    }
}
