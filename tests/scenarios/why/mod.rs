//! What `volume-warden why` says on a real control plane, asked by a client who may only read.

mod claims;
mod cli;
mod namespaces;
mod nodes;
mod objects;
mod pending;
mod pods;
mod server;
mod sets;
mod silent;
mod sizes;
mod support;
mod volumes;

use anyhow::{Result, bail};
use futures::{StreamExt, stream};
use support::{Fault, Stage};

/// So many are made and explained at once.
const AT_ONCE: usize = 6;

/// Each fault has its root cause found, and the next command.
#[tokio::test]
async fn every_fault_is_explained() -> Result<()> {
    let stage = &Stage::get().await?;
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
    let faults: Vec<&Fault> = all.into_iter().flatten().collect();
    let all = faults.len();
    let explained = stream::iter(faults).map(|fault| async move {
        let explained = fault.is_explained(stage).await;
        explained.map_err(|error| format!("{}: {error:#}", fault.name))
    });
    let explained: Vec<_> = explained.buffer_unordered(AT_ONCE).collect().await;
    let wrong: Vec<_> = explained.into_iter().filter_map(Result::err).collect();
    println!("{} of {all} faults explained", all - wrong.len());
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}
