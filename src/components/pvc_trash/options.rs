//! The flags of pvc-trash, which are also its options.

use crate::{cluster::parse_hourly_limit, objects::quantity};
use clap::Args;

/// Options of pvc-trash.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "pvc-trash")]
#[group(skip)]
pub struct Options {
    /// Maximum number of volumes that one leader purges (deletes with their data) in any hour, or
    /// `unlimited`. Further volumes whose undelete window has ended wait. A new leader starts at
    /// zero.
    #[arg(long, value_name = "NUMBER", default_value = "100", value_parser = parse_hourly_limit)]
    pub trash_max_purges: u64,
    /// Capacity of the volumes in the trash of a namespace, such as `500Gi`, or `unlimited`. While
    /// it is reached, the trash is not enabled for further volumes of that namespace. Volumes for
    /// which it is enabled already still get into the trash, so it can exceed this capacity.
    #[arg(long, value_name = "QUANTITY", default_value = "unlimited", value_parser = bytes)]
    pub trash_max_bytes: u64,
}

fn bytes(text: &str) -> Result<u64, String> {
    match (text, quantity::of(text)) {
        ("unlimited", _) => Ok(u64::MAX),
        ("0", _) => Ok(0),
        // A quantity that exceeds a `u64` counts as `unlimited`.
        (_, bytes) if bytes >= 1.0 => Ok(bytes as u64),
        _ => Err("expected a quantity such as `500Gi`, or `unlimited`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capacity_is_a_quantity_or_unlimited() {
        assert_eq!(bytes("0"), Ok(0));
        assert_eq!(bytes("1Ki"), Ok(1024));
        assert_eq!(bytes("5000"), Ok(5000));
        assert_eq!(bytes("unlimited"), Ok(u64::MAX));
        for wrong in ["", "many", "-1Gi", "500m", "1Gib"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
