//! Tests of the namespaces that wait for the next attempt to remove them.

use super::{super::waiting::Waiting, *};
use crate::{hashing::HashSet, objects::ObjectName};
use k8s_openapi::jiff::Timestamp;
use std::time::Duration;
use strum::VariantArray as _;

const SECOND: Duration = Duration::from_secs(1);
const START: Timestamp = Timestamp::UNIX_EPOCH;

#[tokio::test(start_paused = true)]
async fn delays_grow_for_each_reason_on_its_own() {
    let (waiting, name) = (Waiting::default(), ObjectName::cluster_scoped("shop"));
    let mut last = Duration::ZERO;
    for attempt in 1..=4 {
        let waits = waiting.failed(&name, Reason::NotEmpty, Origin::RecentlyDeleted, START);
        assert!(
            waits.delay > last && waits.is_new_reason == (attempt == 1),
            "{waits:?}"
        );
        assert_eq!(waits.attempts, attempt);
        last = waits.delay;
    }
    let waits = waiting.failed(&name, Reason::Unavailable, Origin::Collected, START);
    assert!(waits.delay <= SECOND && waits.is_new_reason, "{waits:?}");
    assert_eq!(
        waiting.origin(&name),
        Some(Origin::RecentlyDeleted),
        "the first origin is kept"
    );
    let waits = waiting.failed(&name, Reason::NotEmpty, Origin::RecentlyDeleted, START);
    assert!(waits.delay > last && !waits.is_new_reason, "{waits:?}");
    waiting.mark_unpublished(&name, Reason::NotEmpty);
    assert!(
        waiting
            .failed(&name, Reason::NotEmpty, Origin::RecentlyDeleted, START)
            .is_new_reason
    );
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_counted_while_it_waits_and_due_afterwards() {
    let (waiting, name) = (Waiting::default(), ObjectName::cluster_scoped("shop"));
    let waits = waiting.failed(&name, Reason::NotEmpty, Origin::RecentlyDeleted, START);
    assert_eq!(waiting.left(&name), Some(waits.delay));
    assert!(waiting.due().is_empty());
    tokio::time::advance(SECOND * 30).await;
    assert_eq!(
        (waiting.left(&name), waiting.due()),
        (None, vec![name.clone()])
    );
    let counts = waiting.count();
    assert_eq!(counts[&Reason::NotEmpty], (1, Some(START)));
    assert_eq!(counts[&Reason::Changing], (0, None));
    assert_eq!(waiting.names(), HashSet::from_iter(["shop".to_owned()]));
    waiting.forget(&name);
    let counts = waiting.count();
    assert_eq!(counts[&Reason::NotEmpty], (0, None));
    assert_eq!(counts.len(), Reason::VARIANTS.len());
}

#[test]
fn a_reported_deletion_is_taken_once() {
    let (waiting, name) = (Waiting::default(), ObjectName::cluster_scoped("shop"));
    assert!(!waiting.take_reported(&name));
    waiting.report(&name);
    assert!(waiting.take_reported(&name) && !waiting.take_reported(&name));
    waiting.report(&name);
    waiting.clear();
    assert!(!waiting.take_reported(&name));
}

#[test]
fn a_name_that_the_record_had_is_needed_there() {
    let (waiting, name) = (Waiting::default(), ObjectName::cluster_scoped("shop"));
    assert!(waiting.needs_record(&name), "it does not wait");
    waiting.failed(&name, Reason::NotEmpty, Origin::RecentlyDeleted, START);
    assert!(!waiting.needs_record(&name));
    waiting.mark_recorded(&name);
    assert!(waiting.needs_record(&name));
    waiting.forget(&name);
    waiting.failed(&name, Reason::NotEmpty, Origin::RecentlyDeleted, START);
    waiting.failed(&name, Reason::NotEmpty, Origin::Collected, START);
    assert!(waiting.needs_record(&name), "a collection found it, too");
}
