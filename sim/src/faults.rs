//! Faults between a client and the API server.

use crate::random::{generator, happens};
use std::hash::Hash;

/// The faults of a history until `end`. Fields of type `u32` are frequencies per thousand messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Requests that the API server, or a proxy in front of it, answers with an error.
    pub refused: u32,
    /// Requests that are lost before they take effect.
    pub lost: u32,
    /// Requests that take effect, and whose answers are lost.
    pub unanswered: u32,
    /// Requests that arrive up to twenty seconds late.
    pub held: u32,
    /// Watch events after which the watch ends.
    pub watch_ends: u32,
    /// Watch events after which the watch is silent.
    pub watch_silent: u32,
    /// Whether a silent watch never ends. Otherwise it ends when the faults end.
    pub silent_for_ever: bool,
    /// Maximum delay of a watch in milliseconds.
    pub watch_lag: u64,
    /// A kind whose watches are much later than those of other kinds.
    pub late_watch: Option<LateWatch>,
    /// A controller of the cluster that does nothing for some time.
    pub absence: Option<Absence>,
    /// Maximum time that the transfer of a request, or of its answer, takes, in milliseconds.
    pub latency: u64,
    /// The virtual millisecond at which the faults end.
    pub end: u64,
}

/// A kind whose watches are late, or fall silent, from a virtual millisecond until the end of the
/// faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateWatch {
    /// The plural of the kind.
    pub kind: &'static str,
    /// The virtual millisecond from which the watches are late.
    pub from: u64,
    /// How late the watches are.
    pub lateness: Lateness,
}

/// How late the watches of a kind are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lateness {
    /// Each event is late by at most this number of milliseconds, and by at least half of it.
    Most(u64),
    /// No event is delivered any more.
    Silent,
}

/// A controller of the cluster that does nothing between two virtual milliseconds, as while
/// kube-controller-manager elects another leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// The name of the controller.
    pub controller: &'static str,
    /// The first millisecond of the absence.
    pub from: u64,
    /// The first millisecond after the absence.
    pub until: u64,
}

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The request takes effect, and the answer arrives.
    Delivered,
    /// The request is answered with this status, and has no effect.
    Refused(u16),
    /// The request is lost, and the client gets a connection error.
    Lost,
    /// The request takes effect, and the client gets a connection error.
    Unanswered,
}

/// What happens to one request, and how long it takes.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// What happens.
    pub fate: Fate,
    /// Milliseconds until the request arrives.
    pub request: u64,
    /// Milliseconds until the answer arrives.
    pub answer: u64,
    /// The order among messages of the same millisecond.
    pub order: u64,
}

/// What happens to one watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFate {
    /// The event is delivered.
    Delivered,
    /// The watch ends before the event.
    Ends,
    /// Neither this event nor any later one is delivered.
    Silent,
}

/// The answers of an overloaded API server, and of a proxy in front of it.
const REFUSALS: [u16; 6] = [404, 409, 429, 500, 503, 504];
/// Maximum delay of a request that is held, in milliseconds.
const HELD: u64 = 20_000;

impl Faults {
    /// Decides what happens to a request at this time. `request` identifies the request within the
    /// history.
    pub fn passage(&self, seed: u64, now: u64, request: impl Hash) -> Passage {
        let mut random = generator(seed, request);
        let mut passage = Passage {
            fate: Fate::Delivered,
            request: random.u64(1..=self.latency.max(1)),
            answer: random.u64(1..=self.latency.max(1)),
            order: random.u64(..),
        };
        if now >= self.end {
            return passage;
        }
        let kinds = [self.refused, self.lost, self.unanswered];
        let [refused, lost, unanswered] = kinds.map(|per_mille| happens(&mut random, per_mille));
        if happens(&mut random, self.held) {
            passage.request += random.u64(1..HELD);
        }
        passage.fate = if refused {
            Fate::Refused(REFUSALS[random.usize(..REFUSALS.len())])
        } else if lost {
            Fate::Lost
        } else if unanswered {
            Fate::Unanswered
        } else {
            Fate::Delivered
        };
        passage
    }

    /// Returns how late the watch at this path is, if its kind is the late one.
    pub fn late_watch_at(&self, path: &str) -> Option<LateWatch> {
        let kind = path.rsplit('/').next();
        self.late_watch.filter(|late| Some(late.kind) == kind)
    }

    /// Returns for how many more milliseconds the controller does nothing.
    pub fn absent_for(&self, controller: &str, now: u64) -> Option<u64> {
        let absence = self.absence?;
        let absent = absence.controller == controller && now >= absence.from && now < absence.until;
        absent.then(|| absence.until - now)
    }

    /// Returns the maximum delay of a watch event in milliseconds, including
    /// the late kind.
    pub fn longest_lag(&self) -> u64 {
        match self.late_watch.map(|late| late.lateness) {
            Some(Lateness::Most(lag)) => lag.max(self.watch_lag),
            Some(Lateness::Silent) | None => self.watch_lag,
        }
    }

    /// Decides what happens to an event of a watch, its delay, and its order. `late` is how late
    /// this watch is, if its kind is the late one.
    pub fn watch_event(
        &self,
        seed: u64,
        now: u64,
        event: impl Hash,
        late: Option<LateWatch>,
    ) -> (WatchFate, u64, u64) {
        let mut random = generator(seed, event);
        let (lag, order) = (random.u64(1..=self.watch_lag.max(1)), random.u64(..));
        if now >= self.end {
            return (WatchFate::Delivered, lag.min(20), order);
        }
        match late
            .filter(|late| now >= late.from)
            .map(|late| late.lateness)
        {
            Some(Lateness::Silent) => return (WatchFate::Silent, lag, order),
            Some(Lateness::Most(most)) => {
                return (WatchFate::Delivered, random.u64(most / 2..=most), order);
            }
            None => {}
        }
        let fate = if happens(&mut random, self.watch_ends) {
            WatchFate::Ends
        } else if happens(&mut random, self.watch_silent) {
            WatchFate::Silent
        } else {
            WatchFate::Delivered
        };
        (fate, lag, order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_watch_is_late_from_its_time_to_the_end_of_the_faults() {
        let faults = |lateness| Faults {
            late_watch: Some(LateWatch {
                kind: "pods",
                from: 1_000,
                lateness,
            }),
            watch_lag: 20,
            end: 2_000,
            ..Faults::default()
        };
        let (late, silent) = (faults(Lateness::Most(600)), faults(Lateness::Silent));
        let event = |faults: &Faults, path: &str, now| {
            let (fate, lag, _) = faults.watch_event(1, now, "event", faults.late_watch_at(path));
            (fate, lag)
        };
        for (path, now) in [
            ("/api/v1/pods", 999),
            ("/api/v1/namespaces/ns/pods", 2_000),
            ("/api/v1/persistentvolumes", 1_000),
        ] {
            for faults in [&late, &silent] {
                let (fate, lag) = event(faults, path, now);
                assert!(fate == WatchFate::Delivered && lag <= 20, "{path} {now}");
            }
        }
        let (fate, lag) = event(&late, "/api/v1/namespaces/ns/pods", 1_000);
        assert!(fate == WatchFate::Delivered && (300..=600).contains(&lag));
        assert_eq!(event(&silent, "/api/v1/pods", 1_999).0, WatchFate::Silent);
        assert_eq!((late.longest_lag(), silent.longest_lag()), (600, 20));
    }

    #[test]
    fn an_absent_controller_does_nothing_until_its_absence_ends() {
        let faults = Faults {
            absence: Some(Absence {
                controller: "scheduler",
                from: 10,
                until: 30,
            }),
            ..Faults::default()
        };
        let left = |now| faults.absent_for("scheduler", now);
        assert_eq!([9, 10, 29, 30].map(left), [None, Some(20), Some(1), None]);
        assert_eq!(faults.absent_for("kubelet", 10), None);
    }
}
