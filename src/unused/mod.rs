//! Finds the storage that no pod uses: what it costs, since when, and what still refers to it.
//! Nothing has to run in the cluster.

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
