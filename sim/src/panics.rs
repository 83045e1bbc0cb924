//! Panics within a history. Volume Warden catches panics in reviews and reconcilers, so without
//! this module they would not be noticed.

use std::{cell::RefCell, panic, sync::Once};

thread_local! {
    /// The panics on this thread. A history runs on one thread.
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Returns the panics on this thread since the last call.
pub fn take() -> Vec<String> {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let former = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            SEEN.with_borrow_mut(|seen| seen.push(panic.to_string()));
            former(panic);
        }));
    });
    SEEN.take()
}
