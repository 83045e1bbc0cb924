//! The claims and volumes that `unused` and `report` are about, and their prices.

use super::{
    caller::{CallerOptions, cluster},
    exit_code::report_unknown,
    target,
};
use crate::{
    cli::print::print_error,
    clock::Clock,
    cluster::error_message,
    inventory::{self, Listed, ReferencePath},
    unused::Prices,
};
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use std::process::ExitCode;

/// Selects the claims and volumes to list, and sets the prices of storage.
#[derive(Debug, Args)]
pub(in crate::cli) struct InventoryOptions {
    /// Only claims of this namespace, and volumes of its deleted claims [default: the namespace of
    /// the kubeconfig's context]
    #[arg(short, long, default_value = "", hide_default_value = true)]
    namespace: String,

    /// Claims of all namespaces, and all volumes whose claim was deleted or that never had one.
    #[arg(short = 'A', long, default_value_t, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Price of a GiB of this StorageClass for a month, such as standard=0.08. Repeatable.
    #[arg(long = "price", value_name = "CLASS=PRICE", value_parser = price)]
    prices: Vec<(String, f64)>,

    /// Custom resources to show as references to the claims that they name in their namespace, with
    /// the JSONPath (RFC 9535) of these names, such as
    /// postgresql.cnpg.io/Cluster:.status.healthyPVC[*]. Repeatable.
    // This is the text of `--help`, too, where it is not Markdown.
    #[allow(rustdoc::broken_intra_doc_links)]
    #[arg(long, value_name = "GROUP/KIND:PATH")]
    references: Vec<ReferencePath>,

    #[command(flatten)]
    caller: CallerOptions,
}

/// The claims, the volumes and what refers to them, as they were read for `unused` and `report`.
pub(in crate::cli) struct Inventory {
    pub(in crate::cli) listed: Listed,
    /// The only namespace that was listed; none if all were.
    pub(in crate::cli) namespace: Option<String>,
    pub(in crate::cli) prices: Prices,
    /// The flags of the command line that select the cluster, for commands that the output
    /// proposes.
    pub(in crate::cli) cluster_flags: String,
    /// The time after the reads, to which all ages are relative.
    pub(in crate::cli) now: Timestamp,
}

impl InventoryOptions {
    /// Lists the objects with the caller's permissions, and reports what cannot be listed.
    ///
    /// # Errors
    /// The exit code, after the error is printed, if there is no usable kubeconfig, or
    /// the claims or the pods could not be listed.
    pub(in crate::cli) async fn read(self) -> Result<Inventory, ExitCode> {
        self.list(false).await
    }

    /// Lists as [`Self::read`] does, and also the namespaces.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub(in crate::cli) async fn read_with_namespaces(self) -> Result<Inventory, ExitCode> {
        self.list(true).await
    }

    async fn list(self, namespaces: bool) -> Result<Inventory, ExitCode> {
        let (client, default) = cluster(&self.caller).await?;
        let namespace = if self.all_namespaces {
            None
        } else {
            Some(target::namespace(&self.namespace, &default).to_owned())
        };
        let listed = inventory::read(&client, namespace.as_deref(), &self.references).await;
        let mut listed = listed.map_err(|error| {
            let why = error_message(&error);
            report_unknown(format!("the claims or the pods could not be listed: {why}"))
        })?;
        if namespaces {
            listed.read_namespaces(&client, namespace.as_deref()).await;
        }
        listed.errors.iter().for_each(print_error);
        Ok(Inventory {
            listed,
            namespace,
            prices: self.prices.into_iter().collect(),
            cluster_flags: self.caller.cluster_flags(),
            now: Clock::system().timestamp(),
        })
    }
}

fn price(text: &str) -> Result<(String, f64), String> {
    let parsed = text.rsplit_once('=').and_then(|(class, price)| {
        let price = price.parse::<f64>().ok();
        Some((
            class.to_owned(),
            price.filter(|price| price.is_finite() && *price >= 0.0)?,
        ))
    });
    parsed.ok_or_else(|| "expected CLASS=PRICE, such as standard=0.08".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_by_class() {
        assert_eq!(price("fast=0.2"), Ok(("fast".to_owned(), 0.2)));
        for wrong in ["fast", "fast=", "fast=-1", "fast=NaN", "fast=inf"] {
            assert!(price(wrong).is_err(), "{wrong}");
        }
    }
}
