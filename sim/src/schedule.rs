//! The order of everything that happens in a history.
//!
//! Messages wait for their turn in virtual milliseconds. Within one millisecond, a seeded number
//! decides their order, not the order in which they began to wait: the wake-ups of a channel with
//! several receivers have a random order in tokio.

use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

/// The position of a message: the millisecond, the seeded order, and the order of arrival.
type Turn = (u64, u64, u64);

/// Delivers the messages of a history one after another.
pub struct Schedule {
    start: Instant,
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    turns: BTreeMap<Turn, oneshot::Sender<()>>,
    arrivals: u64,
}

impl Schedule {
    /// Creates a schedule that begins now. [`Schedule::run`] has to run concurrently with its
    /// users.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            waiting: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Returns the virtual milliseconds since the beginning.
    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Waits for `delay` virtual milliseconds and then for its turn among the messages of the same
    /// millisecond, which `order` decides.
    pub async fn turn(&self, delay: u64, order: u64) {
        let (sender, turn) = oneshot::channel();
        let is_next = {
            let at = self.now() + delay.max(1);
            let mut waiting = self.waiting.lock();
            waiting.arrivals += 1;
            let own = (at, order, waiting.arrivals);
            let next = waiting.turns.first_key_value().map(|(turn, _)| *turn);
            waiting.turns.insert(own, sender);
            next.is_none_or(|next| own < next)
        };
        if is_next {
            self.changed.notify_one();
        }
        // The sender is dropped only at the end of the history.
        let _ = turn.await;
    }

    /// Delivers each message in its turn, indefinitely.
    pub async fn run(self: Arc<Self>) {
        loop {
            let first = self
                .waiting
                .lock()
                .turns
                .first_key_value()
                .map(|(turn, _)| turn.0);
            match first {
                None => self.changed.notified().await,
                Some(at) if at > self.now() => {
                    let due = self.start + Duration::from_millis(at);
                    tokio::select! {
                        biased;
                        () = self.changed.notified() => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
                Some(_) => {
                    let next = self.waiting.lock().turns.pop_first();
                    if let Some((_, sender)) = next {
                        // A message whose sender has ended needs no turn.
                        let _ = sender.send(());
                    }
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}
