//! The flags of pvc-trash, which are also its options.

use clap::Args;

/// Options of pvc-trash.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "pvc-trash")]
#[group(skip)]
pub struct Options {
    /// Maximum number of volumes that are purged in an hour, or `unlimited`. The others wait.
    #[arg(long, value_name = "NUMBER", default_value = "100", value_parser = hourly)]
    pub trash_max_purges: u64,
}

fn hourly(text: &str) -> Result<u64, String> {
    match text {
        "unlimited" => Ok(u64::MAX),
        number => number
            .parse()
            .map_err(|_| "expected a number, or `unlimited`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_number_or_none() {
        assert_eq!(hourly("0"), Ok(0));
        assert_eq!(hourly("unlimited"), Ok(u64::MAX));
        assert!(hourly("many").is_err() && hourly("-1").is_err());
    }
}
