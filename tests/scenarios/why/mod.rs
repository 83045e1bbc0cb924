//! Tests `volume-warden why` on a real control plane, as a client that may only read.

mod claims;
mod cli;
mod namespaces;
mod nodes;
pub mod objects;
mod pending;
mod pods;
mod server;
mod sets;
mod sizes;
mod stuck;
pub mod support;
mod volumes;

use anyhow::{Result, bail};
use futures::{StreamExt, stream};
use std::collections::HashSet;
use support::{Fault, WhyFixture};

/// The number of faults that are injected and explained concurrently.
const CONCURRENT_FAULTS: usize = 6;

/// The faults of all files, in the order in which the documentation lists them.
fn faults() -> impl Iterator<Item = &'static Fault> {
    let all = [
        claims::FAULTS,
        pending::FAULTS,
        volumes::FAULTS,
        pods::FAULTS,
        nodes::FAULTS,
        sizes::FAULTS,
        sets::FAULTS,
        namespaces::FAULTS,
    ];
    all.into_iter().flatten()
}

/// `docs/why.md` lists each tested fault once, with its root cause.
#[test]
fn the_documentation_lists_every_fault() {
    let page = include_str!("../../../docs/why.md");
    let (_, table) = page.split_once("## Tested faults").expect("a section");
    let listed = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    let listed: Vec<_> = listed.map(str::to_owned).collect();
    let tested = faults().map(|fault| format!("| {} | `{}` |", fault.name, fault.root));
    let tested: Vec<_> = tested.collect();
    assert_eq!(listed, tested);
    let different: HashSet<_> = faults().map(|fault| fault.name).collect();
    assert_eq!((different.len(), tested.len()), (55, 55));
}

/// For each fault, `why` finds the root cause and prints the next command.
#[tokio::test]
async fn every_fault_is_explained() -> Result<()> {
    let fixture = &WhyFixture::get().await?;
    let faults: Vec<&Fault> = faults().collect();
    let all = faults.len();
    let explained = stream::iter(faults).map(|fault| async move {
        let explained = fault.is_explained(fixture).await;
        explained.map_err(|error| format!("{}: {error:#}", fault.name))
    });
    let explained: Vec<_> = explained
        .buffer_unordered(CONCURRENT_FAULTS)
        .collect()
        .await;
    let wrong: Vec<_> = explained.into_iter().filter_map(Result::err).collect();
    println!("{} of {all} faults explained", all - wrong.len());
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}
