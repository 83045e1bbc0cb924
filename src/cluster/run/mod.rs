//! The work queue of a component, and the loop that processes it.

mod hourly_limit;
mod pace;
mod reconciler;
mod work_queue;

pub use hourly_limit::{HourlyLimit, Slot, parse_hourly_limit};
pub(crate) use pace::{FIRST_RETRY, Pace};
pub use reconciler::{Reconcile, ReconcileError, Reconciled, Reconciler, Requeue};
pub use work_queue::WorkQueue;
