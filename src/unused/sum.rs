//! Sizes, costs and sums of claims and volumes.

use super::Row;
use crate::objects::quantity;
use std::collections::BTreeMap;

/// Bytes of a GiB, the unit of prices.
pub(super) const GIB: f64 = 1_073_741_824.0;

/// The price of a GiB for a month, by StorageClass.
pub type Prices = BTreeMap<String, f64>;

impl Row {
    /// The size of the volume in bytes; 0 for a claim that is not bound, whatever it requests.
    pub fn bytes(&self) -> f64 {
        if self.volume.is_empty() {
            0.0
        } else {
            quantity::of(&self.capacity)
        }
    }

    /// The cost in a month; none if the class has no price.
    pub fn cost(&self, prices: &Prices) -> Option<f64> {
        Some(prices.get(&self.class)? * self.bytes() / GIB)
    }
}

/// Some claims and volumes: their number, size and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// The number of claims and volumes.
    pub count: usize,
    /// The size of these claims and volumes in bytes.
    pub bytes: f64,
    /// The monthly cost of the claims and volumes whose class has a price; none if no class has
    /// one.
    pub cost: Option<f64>,
    /// The number of claims and volumes whose class has a price.
    pub priced: usize,
}

impl Sum {
    /// Adds a claim or volume.
    pub fn add(&mut self, row: &Row, prices: &Prices) {
        self.count += 1;
        self.bytes += row.bytes();
        if let Some(cost) = row.cost(prices) {
            self.cost = Some(self.cost.unwrap_or_default() + cost);
            self.priced += 1;
        }
    }

    /// Adds up claims and volumes.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>, prices: &Prices) -> Self {
        let mut sum = Self::default();
        rows.into_iter().for_each(|row| sum.add(row, prices));
        sum
    }
}
