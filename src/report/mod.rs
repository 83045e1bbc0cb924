//! The HTML page of the command `report`: which storage is used, which is not, since when, what it
//! costs, and the next commands for what is not used.
//!
//! The page is one file. It has no script and loads nothing; its Content-Security-Policy forbids
//! both. All text from the cluster is bounded, its control characters are escaped ([`text`]), and
//! the templates escape it for HTML. A command contains only names that a shell reads as one word
//! ([`command`]).

mod age;
mod command;
mod figures;
mod group;
mod lines;
mod locations;
mod overview;
mod page;
mod picture;
mod stuck;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod tiles;
mod trash;
mod treemap;

use crate::inventory::Listed;
use crate::unused::{Prices, Row, inventory};
use k8s_openapi::jiff::Timestamp;

/// What the page is made of: the objects of the cluster, prices, and a time.
pub(crate) struct Subject<'a> {
    /// The objects of the cluster.
    pub(crate) listed: &'a Listed,
    /// The only namespace that was listed; none if all were.
    pub(crate) namespace: Option<&'a str>,
    /// The prices; empty if no cost is shown.
    pub(crate) prices: &'a Prices,
    /// The flags that select the cluster, each after a space, for the commands of the page: a
    /// command that deletes something must not run in another cluster.
    pub(crate) cluster_flags: &'a str,
    /// The time of the page, to which all ages are relative.
    pub(crate) now: Timestamp,
}

/// Returns the page as HTML.
pub(crate) fn html(subject: &Subject<'_>) -> String {
    let rows = inventory(subject.listed, subject.namespace);
    page::page(subject, &rows).into_string()
}

impl Subject<'_> {
    /// Returns the flag with which `unused`, `trash` and `why --stuck` list the same namespaces as
    /// the page; none if the name of the namespace is not safe in a command.
    fn flag(&self) -> Option<String> {
        match self.namespace {
            None => Some("-A".to_owned()),
            Some(namespace) => command::is_safe(namespace).then(|| format!("-n {namespace}")),
        }
    }

    fn cost(&self, row: &Row) -> Option<f64> {
        row.cost(self.prices)
    }

    fn has_prices(&self) -> bool {
        !self.prices.is_empty()
    }
}
