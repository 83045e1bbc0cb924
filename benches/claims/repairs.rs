//! The time until the reconciler creates claims that admission missed.

use crate::{
    Missed,
    book::Birth,
    figures::{Times, milliseconds},
    pods::{Kind, Space},
    scene,
    size::{SIDE_BY_SIDE, Size},
    stage::install,
};
use anyhow::Result;
use volume_warden_controlplane::Cluster;

struct Row {
    at_once: usize,
    times: Times,
    /// Claims that admission created, although it is disabled.
    served: usize,
}

/// Runs the part and prints its table.
pub async fn measure(size: Size) -> Result<Missed> {
    let rows = scene::on(scene::still(), async |cluster| rows(cluster, size).await).await?;
    println!(
        "\n**{} annotated pods are created while no webhook is served**\n",
        size.pods
    );
    println!("| at a time | claim after the POST's return: p50 | p99 | longest |");
    println!("|---|---|---|---|");
    for Row { at_once, times, .. } in &rows {
        println!(
            "| {at_once} | {} | {} |",
            times.cells(),
            milliseconds(times.percentile(100))
        );
    }
    let served: usize = rows.iter().map(|row| row.served).sum();
    let missed =
        (served > 0).then(|| format!("{served} claims were created by the disabled webhook"));
    Ok(missed.into_iter().collect())
}

async fn rows(cluster: &Cluster, size: Size) -> Result<Vec<Row>> {
    scene::hold_pods(cluster)?;
    install(cluster).await?;
    let _warden = scene::warden(cluster).start().await?;
    let warm = scene::space(cluster, "warm").await?;
    repaired(&warm, size, SIDE_BY_SIDE).await?;
    let mut rows = Vec::new();
    for at_once in [1, SIDE_BY_SIDE] {
        let space = scene::space(cluster, &format!("repaired-{at_once}")).await?;
        rows.push(repaired(&space, size, at_once).await?);
    }
    Ok(rows)
}

async fn repaired(space: &Space, size: Size, at_once: usize) -> Result<Row> {
    let mut book = Birth::book(&space.claims).await?;
    let posted = space.post(Kind::Annotated, size.pods, at_once).await?;
    let claims = book.once(size.pods, |claim| claim.given.is_some()).await?;
    Ok(Row {
        at_once,
        times: posted
            .iter()
            .filter_map(|pod| pod.waited(&claims))
            .collect(),
        served: posted
            .iter()
            .filter(|pod| pod.has_been_served(&claims))
            .count(),
    })
}
