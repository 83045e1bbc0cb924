//! Permits for calls to the API server that are shared fairly between namespaces.
//!
//! tokio's semaphore serves its waiters in the order of their calls, so one namespace with
//! thousands of waiting calls would delay every other namespace until all of them are done.

use crate::hashing::HashMap;
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::oneshot;

/// A fixed number of permits for calls. While callers wait, each released permit goes to the next
/// namespace in turn; within a namespace, callers are served in order.
pub(crate) struct FairSemaphore {
    state: Mutex<State>,
}

struct State {
    /// Permits that no caller holds or waits for.
    free: usize,
    /// Namespaces with waiting callers, in the order of their turns. They are the keys of
    /// `waiting`.
    turns: VecDeque<Arc<str>>,
    waiting: HashMap<Arc<str>, VecDeque<Waiter>>,
}

type Waiter = oneshot::Sender<Permit>;

/// The permit for one call; when dropped, it is passed to the next caller, or becomes free if no
/// caller waits.
pub(crate) struct Permit {
    /// The semaphore that gets the permit back; none after the permit was passed to another caller.
    semaphore: Option<Arc<FairSemaphore>>,
}

impl FairSemaphore {
    /// Creates a semaphore with this number of permits.
    pub(crate) fn new(permits: usize) -> Arc<Self> {
        let state = State {
            free: permits,
            turns: VecDeque::new(),
            waiting: HashMap::default(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
        })
    }

    /// Waits for a permit in turn with other namespaces. A caller that stops waiting delays no
    /// other caller.
    pub(crate) async fn acquire(self: &Arc<Self>, namespace: &Arc<str>) -> Permit {
        let waiter = {
            let mut state = self.state.lock();
            if state.free > 0 {
                state.free -= 1;
                return self.permit();
            }
            let (waiter, permit) = oneshot::channel();
            state.enqueue(namespace, waiter);
            permit
        };
        match waiter.await {
            Ok(permit) => permit,
            // This cannot happen: a caller that still waits leaves the queue only with a permit.
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns the number of callers of this namespace that wait for a permit. Callers that stopped
    /// waiting may be included.
    pub(crate) fn waiting(&self, namespace: &Arc<str>) -> usize {
        self.state
            .lock()
            .waiting
            .get(namespace)
            .map_or(0, VecDeque::len)
    }

    fn permit(self: &Arc<Self>) -> Permit {
        Permit {
            semaphore: Some(self.clone()),
        }
    }

    fn pass_on(self: &Arc<Self>) {
        loop {
            let Some(waiter) = self.state.lock().next_or_free() else {
                return;
            };
            match waiter.send(self.permit()) {
                Ok(()) => return,
                // The caller has stopped waiting meanwhile, so the next one gets the permit.
                Err(mut unused) => unused.semaphore = None,
            }
        }
    }
}

impl State {
    fn enqueue(&mut self, namespace: &Arc<str>, waiter: Waiter) {
        if let Some(waiters) = self.waiting.get_mut(namespace) {
            waiters.push_back(waiter);
            return;
        }
        self.turns.push_back(namespace.clone());
        self.waiting
            .insert(namespace.clone(), VecDeque::from([waiter]));
    }

    /// Removes and returns the caller to serve next; without one, the permit becomes free.
    fn next_or_free(&mut self) -> Option<Waiter> {
        while let Some(namespace) = self.turns.pop_front() {
            if let Some(waiter) = self.next_of(namespace) {
                return Some(waiter);
            }
        }
        self.free += 1;
        None
    }

    /// Removes and returns the next caller of this namespace. The namespace then has its turn after
    /// all others.
    fn next_of(&mut self, namespace: Arc<str>) -> Option<Waiter> {
        let waiters = self.waiting.get_mut(&namespace)?;
        // Callers that stopped waiting are skipped, so that their namespace keeps its turn.
        let next = std::iter::from_fn(|| waiters.pop_front()).find(|waiter| !waiter.is_closed());
        if waiters.is_empty() {
            self.waiting.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        next
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(semaphore) = self.semaphore.take() {
            semaphore.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::join_all;
    use std::time::Duration;
    use tokio::time::{sleep, timeout};

    const WRITE: Duration = Duration::from_millis(10);

    fn namespace(name: &str) -> Arc<str> {
        name.into()
    }

    /// Returns the order in which `callers` get their permits. They request permits in the given
    /// order, and each holds its permit for one write.
    async fn order(semaphore: &Arc<FairSemaphore>, callers: &[&str]) -> String {
        let served = Mutex::new(Vec::new());
        let calls = callers.iter().map(|caller| {
            let served = &served;
            async move {
                let first = caller.split('-').next().unwrap_or_default();
                let _permit = semaphore.acquire(&namespace(first)).await;
                served.lock().push((*caller).to_owned());
                sleep(WRITE).await;
            }
        });
        join_all(calls).await;
        served.into_inner().join(" ")
    }

    fn free(semaphore: &FairSemaphore) -> (usize, usize, usize) {
        let state = semaphore.state.lock();
        (state.free, state.turns.len(), state.waiting.len())
    }

    #[tokio::test(start_paused = true)]
    async fn namespaces_take_turns_and_each_keeps_its_order() {
        let semaphore = FairSemaphore::new(1);
        let requests = ["a-1", "a-2", "a-3", "a-4", "b-1", "b-2", "c-1"];
        let served = order(&semaphore, &requests).await;
        assert_eq!(served, "a-1 a-2 b-1 c-1 a-3 b-2 a-4");
        assert_eq!(free(&semaphore), (1, 0, 0), "nothing is remembered");
    }

    #[tokio::test(start_paused = true)]
    async fn eight_thousand_writes_of_one_namespace_delay_another_by_one_write() {
        let semaphore = FairSemaphore::new(32);
        let bulk: Vec<_> = (0..8000).map(|_| "bulk").collect();
        let requests: Vec<_> = bulk.into_iter().chain(["other"]).collect();
        let served = order(&semaphore, &requests).await;
        let place = served.split(' ').position(|caller| caller == "other");
        assert!(
            place.is_some_and(|place| (32..=34).contains(&place)),
            "{place:?}"
        );
        assert_eq!(free(&semaphore), (32, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_under_way_than_there_are_permits() {
        let semaphore = FairSemaphore::new(3);
        let most = Mutex::new((0, 0));
        let calls = (0..50).map(|_| async {
            let _permit = semaphore.acquire(&namespace("a")).await;
            {
                let mut most = most.lock();
                most.0 += 1;
                most.1 = most.0.max(most.1);
            }
            sleep(WRITE).await;
            most.lock().0 -= 1;
        });
        join_all(calls).await;
        assert_eq!(most.into_inner(), (0, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn callers_that_stopped_waiting_cost_their_namespace_no_turn() {
        let semaphore = FairSemaphore::new(1);
        let held = semaphore.acquire(&namespace("a")).await;
        let namespace = namespace("a");
        for _ in 0..10_000 {
            let waiting = semaphore.acquire(&namespace);
            assert!(timeout(Duration::ZERO, waiting).await.is_err());
        }
        let passed = async {
            sleep(WRITE).await;
            drop(held);
        };
        let (served, ()) = tokio::join!(order(&semaphore, &["a", "b"]), passed);
        assert_eq!(served, "a b");
        assert_eq!(free(&semaphore), (1, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_given_to_a_caller_that_is_dropped_is_passed_on() {
        let semaphore = FairSemaphore::new(1);
        let held = semaphore.acquire(&namespace("a")).await;
        let namespace = namespace("a");
        let mut first = Box::pin(semaphore.acquire(&namespace));
        assert!(timeout(Duration::ZERO, &mut first).await.is_err());
        drop(held);
        // The first caller was served, but is never polled again.
        drop(first);
        assert_eq!(free(&semaphore), (1, 0, 0));
    }
}
