//! The state in the Secret of the path, and the pure functions that rotate the path.
//!
//! A path is replaced in two steps. First the next path is stored, so that every replica accepts
//! it. Later, after a time that each replica measures with its own monotonic clock, it is
//! published. The replaced path is accepted for another hour, because API servers learn of the
//! change by a watch, and for as long as a webhook configuration carries it.

use crate::admission::PathSecret;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Time from storing a new path in the Secret to publishing it; less if [`Rotation::every`] is
/// below ten minutes. Each replica reads the Secret three times during this time.
const ANNOUNCED: Duration = Duration::from_secs(150);
/// Time for which a replaced path is still accepted; less if [`Rotation::every`] is below one
/// hour.
const GRACE: Duration = Duration::from_secs(3600);

/// How far the path may date from the future. Beyond that, the clock of the replica that stored it
/// was wrong, and the path would not be replaced for as long; so its age begins now.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_hours(1);

/// How often the secret path of the webhooks is replaced.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// Age at which a path is replaced.
    pub every: Duration,
}

impl Rotation {
    /// Returns the time between storing a new path and publishing it.
    pub(super) fn announced(self) -> Duration {
        ANNOUNCED.min(self.every / 4)
    }

    /// Returns the interval at which an idle replica reads the Secret and the webhook
    /// configurations.
    pub(super) fn round(self) -> Duration {
        self.announced() / 3
    }

    fn grace(self) -> SignedDuration {
        signed(GRACE.min(self.every))
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// The state that the replicas share through the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// The secret path that is published in the webhook configurations.
    pub(super) current: PathSecret,
    /// When the current path was created, or replaced the previous path.
    pub(super) since: Timestamp,
    /// The path that is published next, once every replica accepts it.
    pub(super) next: Option<PathSecret>,
    /// The replaced path, and the time until which it is accepted.
    pub(super) previous: Option<(PathSecret, Timestamp)>,
    /// Whether this installation has published a secret path. From then on the fixed paths of
    /// version 0.1.0 are never accepted again.
    pub(super) published: bool,
}

/// What a replica has observed before it computes the next state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed {
    pub(super) now: Timestamp,
    /// How long this replica has known the stored `next` path.
    pub(super) next_known_for: Duration,
    /// Whether the webhook configurations carry a secret path of this installation, and none
    /// carries a fixed path of version 0.1.0.
    pub(super) published: bool,
    /// Whether a webhook configuration carries the replaced path, or may carry it because it could
    /// not be read.
    pub(super) carries_previous: bool,
}

impl State {
    /// Creates the state of a new installation, with a random path.
    ///
    /// # Errors
    /// When the operating system has no random numbers.
    pub(super) fn generate(now: Timestamp) -> anyhow::Result<Self> {
        Ok(Self {
            current: PathSecret::generate()?,
            since: now,
            next: None,
            previous: None,
            published: false,
        })
    }

    /// Returns the state after the rotation step of the secret path that is due, if any. The state
    /// also records that a secret path has been published, and no longer contains a replaced path
    /// whose time has ended. It is equal to `self` if nothing has changed.
    ///
    /// While a configuration still carries the replaced path, for example because Volume Warden may
    /// not write it, that path is accepted and the current one is not replaced: the reviews of its
    /// webhooks would fail.
    ///
    /// # Errors
    /// When the operating system has no random numbers.
    pub(super) fn renewed(&self, rotation: Rotation, observed: Observed) -> anyhow::Result<Self> {
        let mut state = self.clone();
        let age = observed.now.duration_since(self.since);
        state.published |= observed.published;
        if observed.carries_previous {
            state.prolong_previous(rotation, observed.now);
        }
        state.previous = state.previous.filter(|(_, until)| *until > observed.now);
        match &self.next {
            Some(_) if observed.carries_previous => {}
            Some(next) if observed.next_known_for >= rotation.announced() => {
                let until = observed.now.saturating_add(rotation.grace());
                state.previous = until.ok().map(|until| (self.current.clone(), until));
                state.current = next.clone();
                state.since = observed.now;
                state.next = None;
            }
            None if age >= signed(rotation.every) => {
                state.next = Some(PathSecret::generate()?);
            }
            None if age < -CLOCKS_DIFFER => state.since = observed.now,
            _ => {}
        }
        Ok(state)
    }

    /// Prolongs the time of the replaced path if less than half of it is left: API servers learn by
    /// a watch that no configuration carries it any more.
    fn prolong_previous(&mut self, rotation: Rotation, now: Timestamp) {
        let grace = rotation.grace();
        if let Some((_, until)) = &mut self.previous
            && until.duration_since(now) < grace / 2
        {
            *until = now.saturating_add(grace).unwrap_or(*until);
        }
    }

    /// Returns every secret path that a replica accepts: the current, the next and the replaced
    /// one.
    pub(super) fn accepted(&self) -> Vec<PathSecret> {
        let previous = self.previous.iter().map(|(path, _)| path);
        let others = self.next.iter().chain(previous).cloned();
        std::iter::once(self.current.clone())
            .chain(others)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const ROTATION: Rotation = Rotation {
        every: Duration::from_secs(30 * 86_400),
    };

    fn at(days: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH
            .checked_add(signed(DAY * days as u32))
            .expect("in range")
    }

    fn observed(now: Timestamp) -> Observed {
        Observed {
            now,
            next_known_for: Duration::ZERO,
            published: false,
            carries_previous: false,
        }
    }

    #[test]
    fn a_path_is_stored_before_it_is_published_and_accepted_after_it_is_replaced() {
        let first = State::generate(at(0)).expect("generates");
        let young = first.renewed(ROTATION, observed(at(29))).expect("renews");
        assert_eq!(young, first);
        let announced = first.renewed(ROTATION, observed(at(30))).expect("renews");
        assert_eq!(announced.current, first.current, "not published yet");
        let next = announced.next.clone().expect("a next path");
        assert_eq!(announced.accepted(), [first.current.clone(), next.clone()]);
        // The wall clock does not decide: each replica must have known the path for the announced
        // time.
        let early = Observed {
            next_known_for: ANNOUNCED - Duration::from_secs(1),
            ..observed(at(90))
        };
        assert_eq!(
            announced.renewed(ROTATION, early).expect("renews"),
            announced
        );
        let known = Observed {
            next_known_for: ANNOUNCED,
            ..observed(at(31))
        };
        let switched = announced.renewed(ROTATION, known).expect("renews");
        assert_eq!((&switched.current, switched.since), (&next, at(31)));
        assert_eq!(switched.accepted(), [next, first.current]);
        let minutes = |minutes| at(31) + SignedDuration::from_mins(minutes);
        let late = switched.renewed(ROTATION, observed(minutes(59)));
        assert_eq!(late.expect("renews"), switched);
        let over = switched.renewed(ROTATION, observed(minutes(60)));
        assert_eq!(over.expect("renews").accepted(), [switched.current]);
    }

    /// For example, RBAC permits to read the configuration, and not to write it.
    #[test]
    fn a_replaced_path_is_accepted_while_a_configuration_carries_it() {
        let first = State::generate(at(0)).expect("generates");
        let carried = |state: &State, days| {
            let observed = Observed {
                next_known_for: ANNOUNCED,
                carries_previous: true,
                ..observed(at(days))
            };
            state.renewed(ROTATION, observed).expect("renews")
        };
        let announced = first.renewed(ROTATION, observed(at(30))).expect("renews");
        let known = Observed {
            next_known_for: ANNOUNCED,
            ..observed(at(31))
        };
        let switched = announced.renewed(ROTATION, known).expect("renews");
        let later = carried(&switched, 40);
        assert_eq!(later.accepted(), switched.accepted());
        assert_eq!(
            carried(&later, 40),
            later,
            "it is not written in each round"
        );
        let due = carried(&carried(&later, 70), 71);
        assert_eq!(due.current, switched.current, "it is not replaced");
        let minutes = |minutes| at(71) + SignedDuration::from_mins(minutes);
        let after = |minutes_after| {
            let renewed = due.renewed(ROTATION, observed(minutes(minutes_after)));
            renewed.expect("renews").previous
        };
        assert_eq!(after(59), due.previous, "API servers may still use it");
        assert_eq!(after(60), None);
    }

    /// A replica whose clock was ahead stored the path. Otherwise it would be replaced 170 days
    /// late.
    #[test]
    fn a_path_from_the_future_is_as_old_as_one_from_now() {
        let ahead = State::generate(at(200)).expect("generates");
        let renewed = ahead.renewed(ROTATION, observed(at(30))).expect("renews");
        assert_eq!((renewed.since, &renewed.next), (at(30), &None));
        let near = at(30) + SignedDuration::from_mins(59);
        let near = State::generate(near).expect("generates");
        assert_eq!(
            near.renewed(ROTATION, observed(at(30))).expect("renews"),
            near
        );
    }

    #[test]
    fn publication_is_recorded_for_good() {
        let first = State::generate(at(0)).expect("generates");
        let published = Observed {
            published: true,
            ..observed(at(1))
        };
        let recorded = first.renewed(ROTATION, published).expect("renews");
        assert!(recorded.published);
        let later = recorded.renewed(ROTATION, observed(at(2))).expect("renews");
        assert!(later.published, "a restart does not forget it");
    }

    /// A replica reads the Secret several times before a stored path is published.
    #[test]
    fn every_replica_sees_a_path_before_it_is_published() {
        for seconds in [10, 60, 86_400, 30 * 86_400] {
            let every = Duration::from_secs(seconds);
            let rotation = Rotation { every };
            assert!(rotation.round() * 3 <= rotation.announced());
            assert!(rotation.announced() < every);
        }
    }
}
