//! Finds the storage that no pod uses: what it costs, since when, and what still refers to it.
//! Volume Warden need not run in the cluster; since when is then known only if Kubernetes writes
//! the condition `Unused`.

#[cfg(test)]
mod page_tests;
mod report;
mod rule;
mod sum;
#[cfg(test)]
pub(crate) mod test_objects;
#[cfg(test)]
mod tests;

pub use report::{Output, shown};
pub use rule::{Row, State, inventory, rows};
pub use sum::{Prices, Sum};
