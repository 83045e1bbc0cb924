//! The work queue of a component, and the loop that processes it.

mod pace;
mod reconciler;
mod work_queue;

pub(crate) use pace::{FIRST_RETRY, Pace};
pub use reconciler::{Reconcile, ReconcileError, Reconciled, Reconciler, Requeue};
pub use work_queue::WorkQueue;
