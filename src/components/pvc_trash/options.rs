//! The flags of pvc-trash, which are also its options.

use crate::cluster::parse_hourly_limit;
use clap::Args;

/// Options of pvc-trash.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "pvc-trash")]
#[group(skip)]
pub struct Options {
    /// Maximum number of volumes that are purged in an hour, or `unlimited`. The others wait.
    #[arg(long, value_name = "NUMBER", default_value = "100", value_parser = parse_hourly_limit)]
    pub trash_max_purges: u64,
}
