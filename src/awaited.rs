//! A value that one task publishes and others wait for.
//!
//! The waiting tasks are woken in the order in which they began to wait, so that a simulation can
//! be repeated. The receivers of tokio's watch channel are woken in a random order.

use parking_lot::Mutex;
use tokio::sync::{Notify, futures::Notified};

/// The value, and the tasks that wait for its changes.
#[derive(Debug, Default)]
pub(crate) struct Awaited<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Copy> Awaited<T> {
    /// Creates the holder of a value that tasks can wait for. Its first value is `value`.
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            changed: Notify::new(),
        }
    }

    pub(crate) fn get(&self) -> T {
        *self.value.lock()
    }

    /// Publishes a value, wakes all waiting tasks, also if the value is the same as before, and
    /// returns the previous value.
    pub(crate) fn replace(&self, value: T) -> T {
        let last = std::mem::replace(&mut *self.value.lock(), value);
        self.changed.notify_waiters();
        last
    }

    /// Returns a future that completes once a value is published after this call, even if the
    /// future was not polled before. So a caller that creates the future, then reads the value, and
    /// then awaits the future misses no change.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Waits until the value satisfies the condition. A value that is replaced before the waiting
    /// task runs is missed.
    pub(crate) async fn wait_for(&self, condition: impl Fn(T) -> bool) {
        loop {
            let changed = self.changed();
            if condition(self.get()) {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn waiting_tasks_are_woken_in_their_order() {
        let awaited = Arc::new(Awaited::new(0));
        let (sender, mut woken) = tokio::sync::mpsc::unbounded_channel();
        for number in 0..20 {
            let (awaited, sender) = (awaited.clone(), sender.clone());
            tokio::spawn(async move {
                awaited.wait_for(|value| value == 2).await;
                sender.send(number).expect("received");
            });
        }
        for value in 0..3 {
            tokio::task::yield_now().await;
            assert!(woken.is_empty());
            awaited.replace(value);
        }
        for number in 0..20 {
            assert_eq!(woken.recv().await, Some(number));
        }
    }

    #[tokio::test]
    async fn a_value_published_before_the_first_poll_is_not_missed() {
        let awaited = Awaited::new(0);
        let changed = awaited.changed();
        awaited.replace(1);
        changed.await;
    }
}
