use super::*;
use state::MIN_CAPACITY;
use tokio::time::{Instant, advance, timeout};

const MINUTE: Duration = Duration::from_secs(60);

fn open_queue<K: Clone + Eq + Hash + Ord>() -> WorkQueue<K> {
    let queue = WorkQueue::default();
    queue.open();
    queue
}

/// Takes the next urgent key; none if no key is urgent.
async fn take_urgent(queue: &WorkQueue<&'static str>) -> Option<&'static str> {
    timeout(Duration::from_millis(1), queue.take_urgent())
        .await
        .ok()
}

async fn nothing_to_take(queue: &WorkQueue<&'static str>) -> bool {
    timeout(Duration::from_millis(1), queue.take())
        .await
        .is_err()
}

#[tokio::test(start_paused = true)]
async fn a_key_is_queued_once_and_processed_by_one_worker() {
    let queue = open_queue();
    queue.add("a");
    queue.add("a");
    assert_eq!(queue.take().await, "a");
    queue.add("a");
    assert!(nothing_to_take(&queue).await, "taken by another worker");
    queue.done(&"a");
    assert_eq!(
        queue.take().await,
        "a",
        "what happened meanwhile is processed"
    );
    queue.done(&"a");
    assert!(nothing_to_take(&queue).await);
}

#[tokio::test(start_paused = true)]
async fn urgent_keys_are_taken_first_and_once() {
    let queue = open_queue();
    for key in ["a", "b", "c"] {
        queue.add(key);
    }
    queue.add_urgent("c");
    queue.add_urgent("d");
    queue.add("d");
    assert_eq!(queue.depth(), 4);
    assert_eq!(queue.take_urgent().await, "c");
    queue.add_urgent("c");
    assert_eq!(queue.take().await, "d");
    assert_eq!(queue.take().await, "a");
    queue.done(&"c");
    assert_eq!(queue.take().await, "c", "it stays urgent");
    assert_eq!(queue.take().await, "b");
    queue.add("e");
    assert_eq!(take_urgent(&queue).await, None);
    assert_eq!(queue.take().await, "e");
    assert!(nothing_to_take(&queue).await);
}

#[tokio::test(start_paused = true)]
async fn failures_double_the_wait_and_success_forgets_them() {
    let queue = open_queue();
    queue.add("a");
    for expected in [10, 20, 40] {
        let key = queue.take().await;
        assert_eq!(
            queue.failed(&key, Duration::ZERO),
            Duration::from_millis(expected)
        );
    }
    let key = queue.take().await;
    queue.done(&key);
    queue.add("a");
    let key = queue.take().await;
    assert_eq!(queue.failed(&key, Duration::ZERO), FIRST_DELAY);
    let key = queue.take().await;
    assert_eq!(queue.failed(&key, MINUTE), MINUTE);
    let (key, before) = (queue.take().await, Instant::now());
    queue.later(&key, MINUTE);
    let key = queue.take().await;
    assert_eq!(before.elapsed(), MINUTE);
    assert_eq!(queue.failed(&key, Duration::ZERO), FIRST_DELAY);
}

#[tokio::test(start_paused = true)]
async fn new_events_do_not_wait_for_a_backoff() {
    let queue = open_queue();
    queue.add("a");
    for _ in 0..12 {
        let key = queue.take().await;
        queue.failed(&key, Duration::ZERO);
    }
    queue.add("a");
    assert!(!nothing_to_take(&queue).await);
}

#[tokio::test(start_paused = true)]
async fn only_a_key_that_failed_or_is_being_processed_is_retried() {
    let queue = open_queue();
    queue.retry(&"a");
    assert!(nothing_to_take(&queue).await, "it was never processed");
    queue.add("a");
    let key = queue.take().await;
    queue.failed(&key, MINUTE);
    queue.retry(&key);
    assert!(!nothing_to_take(&queue).await, "it failed");
    queue.retry(&key);
    queue.failed(&key, MINUTE);
    assert_eq!(queue.take().await, "a", "it was being processed");
    queue.done(&"a");
    queue.retry(&"a");
    assert!(nothing_to_take(&queue).await, "it succeeded");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_keeps_failing_is_put_off_once_however_often_it_is_added() {
    let queue = open_queue();
    for _ in 0..1000 {
        queue.add("a");
        let key = queue.take().await;
        queue.failed(&key, Duration::ZERO);
    }
    assert_eq!(queue.depth(), 1);
    let key = queue.take().await;
    queue.done(&key);
    assert!(queue.is_empty() && nothing_to_take(&queue).await);
}

#[tokio::test(start_paused = true)]
async fn an_empty_queue_keeps_no_memory_of_many_keys() {
    let queue = open_queue();
    let places = || {
        let state = queue.state.lock();
        let lanes = [state.urgent.capacity(), state.ready.capacity()];
        lanes.into_iter().chain([state.queued.capacity()]).max()
    };
    for key in 0..10 * MIN_CAPACITY {
        queue.add(key);
        queue.add_urgent(key);
    }
    assert!(places() >= Some(10 * MIN_CAPACITY));
    for _ in 0..10 * MIN_CAPACITY {
        let key = queue.take().await;
        queue.done(&key);
    }
    assert!(queue.is_empty() && places() < Some(2 * MIN_CAPACITY));
    queue.add(0);
    assert_eq!(queue.take().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_new_or_closed_queue_remembers_nothing() {
    let queue = WorkQueue::default();
    queue.add("early");
    queue.add_urgent("early");
    assert!(queue.is_empty(), "nothing takes keys yet");
    queue.open();
    assert!(nothing_to_take(&queue).await);
    queue.add("before");
    queue.add("delayed");
    assert_eq!(queue.take().await, "before");
    queue.failed(&"before", MINUTE);
    assert_eq!(queue.depth(), 2);
    queue.close();
    queue.add("meanwhile");
    assert!(queue.is_empty() && queue.depth() == 0);
    queue.open();
    queue.add("after");
    assert_eq!(queue.take().await, "after");
    queue.done(&"after");
    advance(MINUTE).await;
    assert!(nothing_to_take(&queue).await);
}

#[tokio::test(start_paused = true)]
async fn an_urgent_key_stays_urgent_after_a_failure() {
    let queue = open_queue();
    queue.add_urgent("a");
    let key = queue.take().await;
    queue.add("b");
    advance(queue.failed(&key, Duration::ZERO)).await;
    assert_eq!(take_urgent(&queue).await, Some("a"), "after its backoff");
    queue.failed_on_schedule(&key, MINUTE);
    advance(MINUTE).await;
    assert_eq!(take_urgent(&queue).await, Some("a"), "after its pause");
    queue.later(&key, MINUTE);
    advance(MINUTE).await;
    assert_eq!(take_urgent(&queue).await, Some("a"), "at its date");
    queue.add("a");
    queue.failed(&key, MINUTE);
    assert_eq!(take_urgent(&queue).await, Some("a"), "added meanwhile");
    queue.failed(&key, MINUTE);
    queue.add("a");
    assert_eq!(take_urgent(&queue).await, Some("a"), "added while delayed");
    queue.done(&key);
    queue.add("a");
    assert_eq!(take_urgent(&queue).await, None, "it succeeded");
    assert_eq!(queue.take().await, "b");
    assert_eq!(queue.take().await, "a");
}

#[tokio::test(start_paused = true)]
async fn an_urgent_key_that_is_retried_stays_urgent() {
    let queue = open_queue();
    queue.add_urgent("a");
    let key = queue.take().await;
    queue.add("b");
    queue.failed(&key, MINUTE);
    queue.retry(&key);
    assert_eq!(take_urgent(&queue).await, Some("a"), "it failed");
    queue.retry(&key);
    queue.done(&key);
    assert_eq!(take_urgent(&queue).await, Some("a"), "it was processed");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_or_queued_key_becomes_urgent_when_it_is_added_so() {
    let queue = open_queue();
    queue.add("a");
    let key = queue.take().await;
    queue.failed(&key, MINUTE);
    queue.add("b");
    queue.add_urgent("a");
    assert_eq!(take_urgent(&queue).await, Some("a"), "it was delayed");
    queue.add_urgent("b");
    assert_eq!(take_urgent(&queue).await, Some("b"), "it was queued");
    queue.done(&key);
    queue.done(&"b");
    advance(MINUTE).await;
    assert!(nothing_to_take(&queue).await, "its delay has ended");
}

#[tokio::test(start_paused = true)]
async fn the_depth_counts_keys_after_a_failure_and_none_that_wait_for_a_date() {
    let queue = open_queue();
    queue.add("a");
    let key = queue.take().await;
    queue.later(&key, MINUTE * 60);
    assert_eq!(queue.depth(), 0, "it waits for a date");
    assert!(!queue.is_empty());
    queue.add("a");
    assert_eq!(queue.depth(), 1, "an event has ended the wait");
    let key = queue.take().await;
    assert_eq!(queue.depth(), 0, "it is being processed");
    queue.failed(&key, MINUTE);
    assert_eq!(queue.depth(), 1, "it failed");
    queue.add("a");
    assert_eq!(queue.depth(), 1, "it counts once");
    let key = queue.take().await;
    queue.failed_on_schedule(&key, MINUTE);
    assert_eq!(queue.depth(), 1, "it failed, and has its own schedule");
    advance(MINUTE).await;
    let key = queue.take().await;
    queue.done(&key);
    assert!(queue.depth() == 0 && queue.is_empty());
}
