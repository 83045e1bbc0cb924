//! `volume-warden report`: writes what `unused` lists, and what is used, as an HTML page.

use super::{
    print::print,
    replace_file::replace,
    user::{inventory::InventoryOptions, runtime::block_on},
};
use crate::report::{Subject, html};
use anyhow::Context as _;
use clap::Args;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

pub(super) const EXIT_CODES: &str = "Exit codes: 0 written; 1 the file could not be written; 2 the \
command line is wrong; 3 the claims or the pods could not be listed, or there is no usable \
kubeconfig.";

/// `volume-warden report`
#[derive(Debug, Args)]
pub struct ReportOptions {
    /// File to write the HTML page to; - for standard output.
    #[arg(long, value_name = "FILE", required = true)]
    html: PathBuf,

    #[command(flatten)]
    inventory: InventoryOptions,
}

/// Writes the page.
///
/// # Errors
/// When it cannot be written.
pub fn run(options: ReportOptions) -> anyhow::Result<ExitCode> {
    block_on(write(options))
}

async fn write(options: ReportOptions) -> anyhow::Result<ExitCode> {
    let inventory = match options.inventory.read_with_namespaces().await {
        Ok(inventory) => inventory,
        Err(code) => return Ok(code),
    };
    let page = html(&Subject {
        listed: &inventory.listed,
        namespace: inventory.namespace.as_deref(),
        prices: &inventory.prices,
        cluster_flags: &inventory.cluster_flags,
        now: inventory.now,
    });
    if options.html == Path::new("-") {
        print(&page)?;
    } else {
        let context = || format!("cannot write {}", options.html.display());
        replace(&options.html, &page).with_context(context)?;
    }
    Ok(ExitCode::SUCCESS)
}
