//! The flags of greeter.

use clap::Args;

#[derive(Args)]
#[command(next_help_heading = "greeter")]
#[group(skip)]
pub struct Options {
    /// Finalizer that claims get.
    #[arg(long, default_value = "example.com/hello", value_name = "FINALIZER")]
    pub greeting: String,
}
