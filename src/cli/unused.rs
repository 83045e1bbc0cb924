//! `volume-warden unused`: lists the storage that no pod uses.

use super::{
    print::{print, print_error},
    user::{inventory::InventoryOptions, runtime::block_on},
};
use crate::{
    go_duration,
    unused::{self, Output, Row},
};
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use std::{process::ExitCode, time::Duration};

pub(super) const EXIT_CODES: &str = "Exit codes: 0 listed, also when nothing is unused; 2 the \
command line is wrong; 3 the claims or the pods could not be listed, or there is no usable \
kubeconfig.";

/// `volume-warden unused`
#[derive(Debug, Args)]
pub struct UnusedOptions {
    /// Only what is known to be unused for at least this time, such as 30d or 12h.
    #[arg(long, value_name = "DURATION", value_parser = go_duration::parse_days)]
    older_than: Option<Duration>,

    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,

    #[command(flatten)]
    inventory: InventoryOptions,
}

/// Prints what no pod uses.
///
/// # Errors
/// When the list cannot be written.
pub fn run(options: UnusedOptions) -> anyhow::Result<ExitCode> {
    block_on(list(options))
}

async fn list(options: UnusedOptions) -> anyhow::Result<ExitCode> {
    let inventory = match options.inventory.read().await {
        Ok(inventory) => inventory,
        Err(code) => return Ok(code),
    };
    let now = inventory.now;
    let mut rows = unused::rows(&inventory.listed, inventory.namespace.as_deref());
    if let Some(age) = options.older_than {
        retain_older(&mut rows, age, now);
    }
    if rows.is_empty() {
        print_error(match options.older_than {
            None => "nothing is unused",
            Some(_) => "nothing is known to be unused for that long",
        });
    }
    if !rows.is_empty() || matches!(options.output, Output::Json | Output::Csv) {
        let prices = &inventory.prices;
        print(&unused::shown(&rows, options.output, prices, now))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Retains the rows that are known to be unused for this time. Reports how many rows are left out
/// because this time is unknown.
fn retain_older(rows: &mut Vec<Row>, age: Duration, now: Timestamp) {
    let unknown = rows.iter().filter(|row| row.since.is_none()).count();
    if unknown > 0 {
        print_error(format_args!(
            "claims and volumes left out, because it is unknown since when they are unused: \
             {unknown}"
        ));
    }
    rows.retain(|row| row.since.is_some_and(|since| is_older(since, age, now)));
}

/// Returns whether the time is at least `age` ago; false for a time in the future, from a wrong
/// clock.
fn is_older(since: Timestamp, age: Duration, now: Timestamp) -> bool {
    Duration::try_from(now.duration_since(since)).is_ok_and(|passed| passed >= age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_the_future_is_not_old() {
        let time = |text: &str| text.parse::<Timestamp>().expect("a time");
        let (age, now) = (Duration::from_secs(60), time("2026-01-01T00:10:00Z"));
        assert!(is_older(time("2026-01-01T00:09:00Z"), age, now));
        assert!(!is_older(time("2026-01-01T00:09:01Z"), age, now));
        assert!(!is_older(time("2099-01-01T00:00:00Z"), age, now));
    }
}
