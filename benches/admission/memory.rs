//! The memory that Volume Warden uses for pods and their claims.

use crate::{aims::Aims, protected::Space, rest::at_rest, scene, size::Size};
use anyhow::Result;
use volume_warden_controlplane::{Cluster, Warden};

struct Row {
    what: &'static str,
    /// Resident memory when idle, in bytes.
    resident: u64,
    peak: u64,
}

/// Runs the part, prints its table and returns the aims.
pub async fn measure(size: Size) -> Result<Aims> {
    let rows = scene::on(async |cluster| rows(cluster, size.pods).await).await?;
    print(&rows, size.pods);
    let [none, lived, started] = &rows;
    let [lived, started] = [lived, started].map(|row| each(row, none, size.pods));
    Ok(Aims::default()
        .at_most("for each pod that came", 0.5, lived, "KB")
        .at_most("for each pod that was there", 0.5, started, "KB"))
}

async fn rows(cluster: &Cluster, pods: usize) -> Result<[Row; 3]> {
    let warden = scene::warden(cluster).serving().start().await?;
    let none = row("none", &warden).await?;
    Space::new(cluster, "default").fill(pods, 0).await?;
    let lived = row("all came while it ran", &warden).await?;
    warden.stop().await?;
    let warden = scene::warden(cluster).name("second").serving();
    let started = row("all were there when it started", &warden.start().await?).await?;
    Ok([none, lived, started])
}

async fn row(what: &'static str, warden: &Warden) -> Result<Row> {
    let resident = at_rest(warden.process()).await?;
    let peak = warden.process().peak_memory_bytes()?;
    Ok(Row {
        what,
        resident,
        peak,
    })
}

/// The additional resident memory for each pod, in kilobytes.
fn each(row: &Row, none: &Row, pods: usize) -> f64 {
    (row.resident as f64 - none.resident as f64) / pods as f64 / 1000.0
}

fn print(rows: &[Row; 3], pods: usize) {
    println!("\n**{pods} pods, each with a claim of its own**\n");
    println!("| pods | resident | peak | more for each pod |");
    println!("|---|---|---|---|");
    let [none, ..] = rows;
    for row in rows {
        let [resident, peak] = [row.resident, row.peak].map(|bytes| bytes as f64 / 1e6);
        let each = each(row, none, pods);
        println!(
            "| {} | {resident:.1} MB | {peak:.1} MB | {each:.2} KB |",
            row.what
        );
    }
}
