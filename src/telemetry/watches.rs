//! Metrics of the watches and of live reads.

use super::{
    Registrar,
    labels::{Count, Level, Resource},
};
use crate::objects::Kind;
use prometheus_client::metrics::counter::Counter;
use std::time::Duration;

#[derive(Debug)]
pub struct WatchMetrics {
    synced: Level<Resource>,
    age: Level<Resource>,
    lists: Count<Resource>,
    errors: Count<Resource>,
    live_lists: Count<Resource>,
    live_reads: Count<Resource>,
    access_reviews: Counter,
}

impl WatchMetrics {
    pub(super) fn new(own: &mut Registrar<'_>) -> Self {
        Self {
            synced: own.add(
                "watch_synced",
                "1 once the first complete LIST of the resource has arrived",
            ),
            age: own.add_seconds(
                "watch_idle",
                "Time since the API server last sent data on the watch, bookmarks included",
            ),
            lists: own.add(
                "watch_lists",
                "LISTs of all objects of the resource, each before a new watch, also those that \
                 failed",
            ),
            errors: own.add(
                "watch_errors",
                "Watches, and LISTs before a watch, that failed",
            ),
            live_lists: own.add(
                "live_lists",
                "LIST requests that verify a decision, such as that no pod uses a claim",
            ),
            live_reads: own.add(
                "live_reads",
                "GET requests for an object that a decision about another object requires",
            ),
            access_reviews: own.add(
                "access_reviews",
                "SubjectAccessReviews sent to the API server to check whether the creator of an annotated pod may create claims",
            ),
        }
    }

    /// Creates the series about the watch of a kind when it begins, so that `rate` includes the
    /// first failure.
    pub fn begun(&self, kind: Kind) {
        self.synced.get_or_create(&of(kind)).set(0);
        drop(self.lists.get_or_create(&of(kind)));
        drop(self.errors.get_or_create(&of(kind)));
    }

    /// Sets the time since the API server last sent data on the watch of a kind or for its list.
    pub fn age(&self, kind: Kind, age: Duration) {
        let age = age.as_secs().try_into().unwrap_or(i64::MAX);
        self.age.get_or_create(&of(kind)).set(age);
    }

    /// Records that the first list of a kind is complete.
    pub fn synced(&self, kind: Kind) {
        self.synced.get_or_create(&of(kind)).set(1);
    }

    /// Counts a LIST of all objects of a kind when it begins, before a watch, even if it then
    /// fails.
    pub fn listed(&self, kind: Kind) {
        self.lists.get_or_create(&of(kind)).inc();
    }

    /// Counts a watch, or the LIST before it, that ended with an error.
    pub fn failed(&self, kind: Kind) {
        self.errors.get_or_create(&of(kind)).inc();
    }

    /// Counts a LIST that verifies a decision, such as that no pod uses a claim.
    pub fn live_listed(&self, kind: Kind) {
        self.live_lists.get_or_create(&of(kind)).inc();
    }

    /// Counts a live GET of an object on which a decision depends.
    pub fn live_read(&self, kind: Kind) {
        self.live_reads.get_or_create(&of(kind)).inc();
    }

    /// Counts a SubjectAccessReview about the creator of an annotated pod.
    pub fn access_reviewed(&self) {
        self.access_reviews.inc();
    }
}

fn of(kind: Kind) -> Resource {
    Resource {
        resource: kind.plural(),
    }
}
