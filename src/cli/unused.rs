//! `volume-warden unused`: lists the storage that no pod uses.

use super::{
    caller::CallerOptions,
    print::{complain, print},
    target,
    trash::{block_on, cluster, unreadable},
};
use crate::{
    clock::Clock,
    go_duration,
    unused::{self, Output, Prices, ReferencePath, Row},
};
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use std::{process::ExitCode, time::Duration};

pub(super) const EXIT_CODES: &str = "Exit codes: 0 listed, also when nothing is unused; 2 the \
command line is wrong; 3 the claims or the pods could not be listed.";

/// `volume-warden unused`
#[derive(Debug, Args)]
pub struct UnusedOptions {
    /// Only claims of this namespace [default: the namespace of the kubeconfig's context]
    #[arg(short, long, default_value = "", hide_default_value = true)]
    namespace: String,

    /// Claims of all namespaces, and volumes that never had a claim.
    #[arg(short = 'A', long, default_value_t, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Only what is known to be unused for at least this time, such as 30d or 12h.
    #[arg(long, value_name = "DURATION", value_parser = days)]
    older_than: Option<Duration>,

    /// Price of a GiB of this StorageClass for a month, such as standard=0.08. Repeatable.
    #[arg(long = "price", value_name = "CLASS=PRICE", value_parser = price)]
    prices: Vec<(String, f64)>,

    /// Where custom resources of a kind name claims of their namespace: a JSONPath (RFC 9535), such
    /// as postgresql.cnpg.io/Cluster:.status.healthyPVC[*]. Repeatable.
    #[arg(long, value_name = "GROUP/KIND:PATH")]
    references: Vec<ReferencePath>,

    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,

    #[command(flatten)]
    caller: CallerOptions,
}

/// Parses a duration that may be a number of days.
fn days(text: &str) -> Result<Duration, String> {
    let days = text
        .strip_suffix('d')
        .and_then(|days| days.parse::<u16>().ok());
    match days {
        Some(days) => Ok(Duration::from_secs(u64::from(days) * 86_400)),
        None => go_duration::parse(text).map_err(|error| format!("{error}, or days such as 30d")),
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

/// Prints what no pod uses.
///
/// # Errors
/// When the list cannot be written.
pub fn run(options: UnusedOptions) -> anyhow::Result<ExitCode> {
    block_on(list(options))
}

async fn list(options: UnusedOptions) -> anyhow::Result<ExitCode> {
    let (client, default) = match cluster(&options.caller).await {
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    let namespace = match options.all_namespaces {
        true => None,
        false => Some(target::namespace(&options.namespace, &default)),
    };
    let listed = match unused::read(&client, namespace, &options.references).await {
        Ok(listed) => listed,
        Err(error) => {
            let why = unused::sentence(&error);
            return Ok(unreadable(format!(
                "the claims or the pods could not be listed: {why}"
            )));
        }
    };
    listed.errors.iter().for_each(complain);
    let now = Clock::system().timestamp();
    let mut rows = unused::rows(&listed, namespace);
    if let Some(age) = options.older_than {
        retain_older(&mut rows, age, now);
    }
    if rows.is_empty() {
        complain(match options.older_than {
            None => "nothing is unused",
            Some(_) => "nothing is known to be unused for that long",
        });
    }
    if !rows.is_empty() || matches!(options.output, Output::Json | Output::Csv) {
        let prices: Prices = options.prices.into_iter().collect();
        print(&unused::shown(&rows, options.output, &prices, now))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Retains what is unused for that time, and reports how many rows have an unknown time.
fn retain_older(rows: &mut Vec<Row>, age: Duration, now: Timestamp) {
    let unknown = rows.iter().filter(|row| row.since.is_none()).count();
    if unknown > 0 {
        complain(format_args!(
            "left out, because it is unknown since when they are unused: {unknown}"
        ));
    }
    rows.retain(|row| row.since.is_some_and(|since| is_older(since, age, now)));
}

/// Whether the time is at least that long ago. One in the future, of a wrong clock, is not.
fn is_older(since: Timestamp, age: Duration, now: Timestamp) -> bool {
    Duration::try_from(now.duration_since(since)).is_ok_and(|passed| passed >= age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_may_be_days() {
        assert_eq!(days("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(days("12h"), Ok(Duration::from_secs(12 * 3600)));
        for wrong in ["d", "-1d", "1.5d", "30", "month"] {
            assert!(days(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_in_the_future_is_not_old() {
        let time = |text: &str| text.parse::<Timestamp>().expect("a time");
        let (age, now) = (Duration::from_secs(60), time("2026-01-01T00:10:00Z"));
        assert!(is_older(time("2026-01-01T00:09:00Z"), age, now));
        assert!(!is_older(time("2026-01-01T00:09:01Z"), age, now));
        assert!(!is_older(time("2099-01-01T00:00:00Z"), age, now));
    }

    #[test]
    fn prices_are_by_class() {
        assert_eq!(price("fast=0.2"), Ok(("fast".to_owned(), 0.2)));
        for wrong in ["fast", "fast=", "fast=-1", "fast=NaN", "fast=inf"] {
            assert!(price(wrong).is_err(), "{wrong}");
        }
    }
}
