//! Large clusters: `cargo bench --bench scale`, with `-- 30000` for 30,000 claims and pods, or with
//! `-- large` for few pods of more than a megabyte.
//!
//! The release binary runs with all components against a model of the API server, over HTTP on
//! loopback, because a real API server with 200,000 objects would use both cores of the machine.
//! The model and the client of the reviews represent other machines: the threads of the model use
//! only the processor time that no other thread needs, and the client runs before all other
//! threads.

mod api;
mod load;
mod program;
#[path = "../shared/rest.rs"]
mod rest;
mod reviews;
mod scheduling;
#[path = "../shared/times.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod times;

use anyhow::{Context, Result, ensure};
use api::Api;
use load::Load;
use program::Program;
use rest::at_rest as memory_at_rest;
use std::time::{Duration, Instant};
use times::Times;
use tokio::runtime::{Builder, Handle};

/// The number of claims and of pods, each pod with its own claim.
const OBJECTS: usize = 100_000;
/// The number of large pods, and the size of each in bytes; etcd accepts 1.5 MiB.
const LARGE: (usize, usize) = (300, 1_300_000);
/// The API server is unavailable for this time.
const AWAY: Duration = Duration::from_secs(5);

fn main() -> Result<()> {
    volume_warden_controlplane::install_crypto_provider();
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .on_thread_start(scheduling::only_idle_time)
        .build()?;
    // Runs on this thread, which has the usual scheduling policy: the program inherits it.
    runtime.block_on(measure())
}

async fn measure() -> Result<()> {
    if std::env::args().any(|argument| argument == "large") {
        return large().await;
    }
    let size = std::env::args().find_map(|argument| argument.parse().ok());
    let objects = size.unwrap_or(OBJECTS);
    println!("\n**{objects} claims and {objects} pods**\n");
    header();
    let empty = at_rest("none", 0, 1).await?;
    for namespaces in [1, 100] {
        let what = format!("at rest, {namespaces} namespaces");
        let resident = at_rest(&what, objects, namespaces).await?;
        let each = resident.saturating_sub(empty) as f64 / objects as f64;
        println!("| {each:.0} bytes for a pod with its claim | | | | | |");
    }
    unprotected(objects).await?;
    deleted(objects).await
}

/// Measures the first list of large pods, and the LISTs for claims that are deleted.
async fn large() -> Result<()> {
    let (objects, bytes) = LARGE;
    println!("\n**{objects} pods of {bytes} bytes**\n");
    header();
    let api = Api::start().await?;
    let load = Load {
        objects,
        namespaces: 1,
        bytes,
    };
    load.fill(&api.server, 0).await?;
    let began = Instant::now();
    let program = Program::start(&api).await?;
    program.reconciled().await?;
    row(
        "at rest",
        began.elapsed(),
        program.process.cpu_seconds()?,
        &program,
        &api,
    )?;
    let (before, began) = (program.process.cpu_seconds()?, Instant::now());
    load.delete_half(&api.server).await?;
    load.half_is_gone(&api.server).await?;
    let cpu = program.process.cpu_seconds()? - before;
    row("half deleted", began.elapsed(), cpu, &program, &api)
}

/// Measures the first list of all objects. Returns the resident memory afterwards, in bytes.
async fn at_rest(what: &str, objects: usize, namespaces: usize) -> Result<u64> {
    let api = Api::start().await?;
    let load = Load {
        objects,
        namespaces,
        bytes: 0,
    };
    load.fill(&api.server, 0).await?;
    let began = Instant::now();
    let program = Program::start(&api).await?;
    program.reconciled().await?;
    let took = began.elapsed();
    let cpu = program.process.cpu_seconds()?;
    let resident = memory_at_rest(&program.process).await?;
    row(what, took, cpu, &program, &api)?;
    Ok(resident)
}

/// Measures a start of the program while half of the claims have no finalizer.
async fn unprotected(objects: usize) -> Result<()> {
    let api = Api::start().await?;
    let load = Load {
        objects,
        namespaces: 1,
        bytes: 0,
    };
    load.fill(&api.server, objects / 2).await?;
    let began = Instant::now();
    let program = Program::start(&api).await?;
    load.protected(&api.server).await?;
    let took = began.elapsed();
    let cpu = program.process.cpu_seconds()?;
    row("half without the finalizer", took, cpu, &program, &api)
}

/// Measures the deletion of half of the claims, after their pods, while reviews are answered and
/// after all watches have expired. Then measures the LISTs that an outage of the API server causes.
async fn deleted(objects: usize) -> Result<()> {
    let api = Api::start().await?;
    let load = Load {
        objects,
        namespaces: 1,
        bytes: 0,
    };
    load.fill(&api.server, 0).await?;
    let program = Program::start(&api).await?;
    program.reconciled().await?;
    memory_at_rest(&program.process).await?;
    let reviews = program.reviews(&api)?;
    let idle = reviews
        .during(async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok(())
        })
        .await?;
    let before = program.process.cpu_seconds()?;
    let began = Instant::now();
    let (server, model) = (api.server.clone(), load);
    let deletion = tokio::task::spawn_blocking(move || {
        Handle::current().block_on(async {
            server.compact();
            server.end_watches();
            model.delete_half(&server).await?;
            model.half_is_gone(&server).await
        })
    });
    let busy = reviews.during(async { deletion.await? }).await?;
    let took = began.elapsed();
    let cpu = program.process.cpu_seconds()? - before;
    row(
        "half deleted, all watches expired",
        took,
        cpu,
        &program,
        &api,
    )?;
    println!(
        "| reviews p50, p99: {} | | | | | |",
        cells(&idle.reviews, &busy.reviews)
    );
    println!(
        "| a pause of their client was late p50, p99: {} | | | | | |",
        cells(&idle.late, &busy.late)
    );
    memory_at_rest(&program.process).await?;
    let lists = api.all_lists();
    api.away(AWAY).await;
    program.follows(&api).await?;
    let more = api.all_lists() - lists;
    println!("| LISTs because of {AWAY:?} without the API server: {more} | | | | | |");
    ensure!(more == 0, "the outage caused LISTs");
    Ok(())
}

fn cells(idle: &Times, busy: &Times) -> String {
    let cells = |times: &Times| times.cells().replace(" | ", ", ");
    format!("idle {}; meanwhile {}", cells(idle), cells(busy))
}

fn header() {
    println!("| | seconds | CPU seconds | peak memory | resident | LISTs of pods |");
    println!("|---|---|---|---|---|---|");
}

fn row(what: &str, took: Duration, cpu: f64, program: &Program, api: &Api) -> Result<()> {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let (peak, resident) = (
        program.process.peak_memory_bytes(),
        program.process.memory_bytes(),
    );
    println!(
        "| {what} | {:.1} | {cpu:.1} | {:.0} MB | {:.0} MB | {} |",
        took.as_secs_f64(),
        megabytes(peak.context("no peak memory")?),
        megabytes(resident?),
        api.lists(),
    );
    Ok(())
}
