//! Since when Volume Warden has watched the cluster without a break, also across replicas.
//! `pvc-expiry` needs this, so only its watches count, and without it nothing is recorded.
//!
//! The leader writes this time into its Lease, with the namespace that it watches. Another replica
//! adopts the time if the leader renewed or released the Lease after all watches of that other
//! replica were complete, and watches at least as much: then at every moment at least one of the
//! two replicas watched.

use super::lease_name::holder;
pub use crate::objects::keys::OBSERVED_SINCE;
use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use parking_lot::Mutex;
use std::time::Duration;

/// Changes that may have been missed for at most this time do not count as a break: the Lease
/// duration, after which another replica may lead.
const LONGEST_BREAK: Duration = Duration::from_secs(15);

/// What the Lease contains in place of a namespace if all namespaces are watched. No namespace has
/// this name.
const ALL: &str = "*";

/// Since when the cluster has been watched without a break, as far as this replica knows.
#[derive(Debug, Default)]
pub struct Observation {
    /// The only namespace that is watched; none if all are.
    namespace: Option<Box<str>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When all watches of this replica were complete for the first time, or when it last could
    /// reach the API server again.
    began: Option<Timestamp>,
    /// Whether this replica has read the Lease of another holder since `began`.
    read: bool,
    /// Since when another holder has watched, as it wrote into a Lease that it renewed or released
    /// after `began`.
    inherited: Option<Timestamp>,
}

impl Observation {
    /// Creates the observation of this namespace, or of all namespaces.
    pub fn of(namespace: Option<&str>) -> Self {
        Self {
            namespace: namespace.map(Into::into),
            ..Self::default()
        }
    }

    /// Records that since `now` all watches of this replica are complete. Later calls change
    /// nothing.
    pub fn begin(&self, now: Timestamp) {
        self.state.lock().began.get_or_insert(now);
    }

    /// Records that this replica may have missed changes for this time until `now`. After more than
    /// [`LONGEST_BREAK`] the observation begins again, unless it has not begun. If another replica
    /// watched meanwhile, [`Self::follow`] restores the earlier time.
    pub fn interrupt(&self, missed: Duration, now: Timestamp) {
        if missed <= LONGEST_BREAK {
            return;
        }
        let mut state = self.state.lock();
        if let Some(began) = state.began {
            *state = State {
                began: Some(began.max(now)),
                ..State::default()
            };
        }
    }

    /// Returns since when this replica, or another one before it, has watched without a break;
    /// none until all watches of this replica are complete.
    pub fn since(&self) -> Option<Timestamp> {
        let state = self.state.lock();
        let began = state.began?;
        Some(state.inherited.map_or(began, |since| since.min(began)))
    }

    /// Records a read of another holder's Lease, and whether that Lease was `renewed` since the
    /// previous read. If the watches of this replica were complete before both reads, that holder
    /// watched at the same time as this replica, so the time in its Lease counts for this replica,
    /// too.
    pub(super) fn follow(&self, lease: &Lease, renewed: bool) {
        let mut state = self.state.lock();
        if state.began.is_none() {
            return;
        }
        if renewed {
            self.inherit(&mut state, lease, holder(lease));
        }
        state.read = true;
    }

    /// Records that the holder `former` has released its Lease since this replica last read it. The
    /// release counts like a renewal: that replica watched until then.
    pub(super) fn take_over(&self, lease: &Lease, former: &str) {
        self.inherit(&mut self.state.lock(), lease, former);
    }

    fn inherit(&self, state: &mut State, lease: &Lease, holder: &str) {
        if state.began.is_some() && state.read {
            let written = self.written(lease, holder);
            state.inherited = state.inherited.into_iter().chain(written).min();
        }
    }

    /// Writes into the Lease since when the cluster has been watched, the identity of this replica
    /// and what it watches. Removes that annotation if the watches of this replica are not complete
    /// yet.
    pub(super) fn write(&self, lease: &mut Lease, identity: &str) {
        let annotations = &mut lease.metadata.annotations;
        if let Some(since) = self.since() {
            let annotations = annotations.get_or_insert_default();
            let scope = self.namespace.as_deref().unwrap_or(ALL);
            let note = format!("{since} {identity} {scope}");
            annotations.insert(OBSERVED_SINCE.to_owned(), note);
        } else if let Some(annotations) = annotations {
            annotations.remove(OBSERVED_SINCE);
        }
    }

    /// Returns the time in the Lease since when its holder has watched; none if this holder did not
    /// write it, or watches less than this replica.
    fn written(&self, lease: &Lease, holder: &str) -> Option<Timestamp> {
        let annotations = lease.metadata.annotations.as_ref()?;
        let (since, writer) = annotations.get(OBSERVED_SINCE)?.split_once(' ')?;
        let (identity, scope) = writer.rsplit_once(' ')?;
        let suffices = scope == ALL || self.namespace.as_deref() == Some(scope);
        let counts = identity == holder && suffices;
        since.parse().ok().filter(|_| counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(hour: u8) -> Timestamp {
        format!("2026-01-01T{hour:02}:00:00Z")
            .parse()
            .expect("a time")
    }

    fn held(holder: &str, note: &str) -> Lease {
        let lease = json!({"metadata": {"annotations": {OBSERVED_SINCE: note}},
            "spec": {"holderIdentity": holder}});
        serde_json::from_value(lease).expect("a Lease")
    }

    #[test]
    fn an_observation_is_taken_over_from_a_leader_that_goes_on_meanwhile() {
        let leader = Observation::default();
        leader.begin(at(1));
        let mut lease = held("a", "");
        leader.write(&mut lease, "a");
        let next = Observation::default();
        next.follow(&lease, true);
        next.follow(&lease, true);
        assert_eq!(next.since(), None, "it does not watch yet");
        next.begin(at(5));
        next.follow(&lease, true);
        assert_eq!(next.since(), Some(at(5)), "renewed before it began");
        next.follow(&lease, false);
        assert_eq!(next.since(), Some(at(5)), "not renewed");
        next.follow(&lease, true);
        assert_eq!(next.since(), Some(at(1)));
        next.begin(at(7));
        next.follow(&held("b", ""), true);
        assert_eq!(next.since(), Some(at(1)), "it goes on itself");
    }

    #[test]
    fn an_observation_begins_again_after_an_interruption() {
        let observation = Observation::default();
        observation.interrupt(LONGEST_BREAK * 2, at(1));
        assert_eq!(observation.since(), None, "it has not begun");
        observation.begin(at(1));
        observation.follow(&held("a", &format!("{} a *", at(0))), true);
        observation.interrupt(LONGEST_BREAK, at(8));
        assert_eq!(observation.since(), Some(at(1)), "short");
        observation.interrupt(LONGEST_BREAK * 2, at(9));
        assert_eq!(observation.since(), Some(at(9)));
        // The other replica watched meanwhile, which shows when it renews the Lease again.
        let lease = held("a", &format!("{} a *", at(1)));
        observation.follow(&lease, true);
        assert_eq!(observation.since(), Some(at(9)), "renewed before the end");
        observation.follow(&lease, true);
        assert_eq!(observation.since(), Some(at(1)));
    }

    #[test]
    fn an_observation_is_taken_over_from_a_leader_that_ends() {
        let released = held("", &format!("{} a *", at(1)));
        let next = Observation::default();
        next.take_over(&released, "a");
        next.begin(at(5));
        next.take_over(&released, "a");
        assert_eq!(next.since(), Some(at(5)), "the Lease was not read before");
        next.follow(&held("a", ""), false);
        next.take_over(&released, "b");
        assert_eq!(next.since(), Some(at(5)), "another replica wrote it");
        next.take_over(&released, "a");
        assert_eq!(next.since(), Some(at(1)));
    }

    #[test]
    fn only_what_the_holder_wrote_counts() {
        for (holder, note) in [
            ("b", format!("{} a *", at(1))),
            ("a", format!("{} a", at(1))),
            ("a", at(1).to_string()),
            ("a", "soon a *".to_owned()),
            ("a", String::new()),
        ] {
            let next = Observation::default();
            next.begin(at(5));
            (0..3).for_each(|_| next.follow(&held(holder, &note), true));
            assert_eq!(next.since(), Some(at(5)), "{holder}: {note}");
        }
    }

    /// Months may have passed in the namespaces that the leader does not watch.
    #[test]
    fn only_a_leader_that_watched_as_much_counts() {
        for (leader, next, counts) in [
            (None, None, true),
            (None, Some("team-a"), true),
            (Some("team-a"), Some("team-a"), true),
            (Some("team-a"), Some("team-b"), false),
            (Some("team-a"), None, false),
        ] {
            let [leader, next] = [leader, next].map(Observation::of);
            let mut lease = held("a", "");
            leader.begin(at(1));
            leader.write(&mut lease, "a");
            next.begin(at(5));
            (0..3).for_each(|_| next.follow(&lease, true));
            let expected = if counts { at(1) } else { at(5) };
            assert_eq!(next.since(), Some(expected), "{lease:?}");
        }
    }

    #[test]
    fn a_leader_that_does_not_watch_leaves_no_time_behind() {
        let mut lease = held("a", &format!("{} a *", at(1)));
        Observation::default().write(&mut lease, "a");
        assert_eq!(Observation::default().written(&lease, "a"), None);
        let mut plain = Lease::default();
        Observation::default().write(&mut plain, "a");
        assert_eq!(plain, Lease::default(), "nothing is added");
    }
}
