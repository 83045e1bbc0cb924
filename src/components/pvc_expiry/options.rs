//! The flags of pvc-expiry, which are also its options.

use crate::{cluster::parse_hourly_limit, inventory::ReferencePath};
use clap::Args;

/// Options of pvc-expiry.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "pvc-expiry")]
#[group(skip)]
pub struct Options {
    /// Maximum number of claims that one leader deletes in any hour, or `unlimited`. Further claims
    /// that are due wait. A new leader starts at zero.
    #[arg(long, value_name = "NUMBER", default_value = "20", value_parser = parse_hourly_limit)]
    pub expiry_max_deletions: u64,

    /// Custom resources that name claims, which then do not expire, as GROUP/KIND:PATH with a
    /// JSONPath, such as `postgresql.cnpg.io/Cluster:.status.healthyPVC[*]`. May be repeated.
    /// While the kind cannot be listed, for example because the role lacks the permission, or there
    /// are objects of it and none has a text at the path, nothing expires in that namespace.
    #[arg(long, value_name = "GROUP/KIND:PATH")]
    pub expiry_references: Vec<ReferencePath>,
}
