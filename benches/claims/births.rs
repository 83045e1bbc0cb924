//! The latency that admission adds to the creation of a pod, and whether the pod's claim exists
//! afterwards.

use crate::{
    Missed,
    book::Birth,
    figures::Times,
    pods::{Kind, Posted, Space, times},
    scene,
    size::{SIDE_BY_SIDE, Size},
};
use anyhow::Result;
use volume_warden_controlplane::Cluster;

/// The numbers of concurrent requests.
const AT_ONCE: [usize; 2] = [1, SIDE_BY_SIDE];

struct Row {
    who: &'static str,
    at_once: usize,
    times: Times,
    /// Claims that existed before their pods.
    in_time: Option<usize>,
}

/// Creates annotated pods in an empty namespace, and counts the claims that existed before their
/// pods.
pub async fn annotated(
    space: &Space,
    count: usize,
    at_once: usize,
) -> Result<(Vec<Posted>, usize)> {
    let mut book = Birth::book(&space.claims).await?;
    let posted = space.post(Kind::Annotated, count, at_once).await?;
    let claims = book.once(count, |claim| claim.created.is_some()).await?;
    let in_time = |pod: &&Posted| pod.has_been_served(&claims);
    let in_time = posted.iter().filter(in_time).count();
    Ok((posted, in_time))
}

/// Runs the part and prints its table.
pub async fn measure(size: Size) -> Result<Missed> {
    let rows = scene::on(scene::still(), async |cluster| rows(cluster, size).await).await?;
    print(&rows, size);
    let made = rows.iter().filter_map(|row| Some((row, row.in_time?)));
    let late = made.filter(|(_, in_time)| *in_time < size.pods);
    let missed = late.map(|(row, found)| {
        let wanted = size.pods;
        format!(
            "{found} of {wanted} claims were there at the POST's return, {} at a time",
            row.at_once
        )
    });
    Ok(missed.collect())
}

async fn rows(cluster: &Cluster, size: Size) -> Result<Vec<Row>> {
    scene::hold_pods(cluster)?;
    let mut floors = floors(cluster, size, "before").await?;
    let warden = scene::served(cluster).await?;
    let served = served(cluster, size).await?;
    drop(warden);
    scene::remove_webhooks(cluster).await?;
    // The floors are measured again at the end, because the machine's speed drifts.
    let after = self::floors(cluster, size, "after").await?;
    for (floor, after) in floors.iter_mut().zip(after) {
        floor.times = std::mem::take(&mut floor.times).and(after.times);
    }
    Ok(floors.into_iter().chain(served).collect())
}

async fn floors(cluster: &Cluster, size: Size, when: &str) -> Result<Vec<Row>> {
    // Warms up: the first pods of a new control plane take longer.
    let warm = scene::space(cluster, &format!("warm-{when}")).await?;
    warm.post(Kind::Plain, size.pods, SIDE_BY_SIDE).await?;
    let mut rows = Vec::new();
    for at_once in AT_ONCE {
        let space = scene::space(cluster, &format!("{when}-{at_once}")).await?;
        rows.push(plain("no Volume Warden", &space, size, at_once).await?);
    }
    Ok(rows)
}

async fn served(cluster: &Cluster, size: Size) -> Result<Vec<Row>> {
    let warm = scene::space(cluster, "warm").await?;
    annotated(&warm, size.pods, SIDE_BY_SIDE).await?;
    let mut rows = Vec::new();
    for at_once in AT_ONCE {
        let space = scene::space(cluster, &format!("plain-{at_once}")).await?;
        rows.push(plain("without annotations", &space, size, at_once).await?);
        let space = scene::space(cluster, &format!("annotated-{at_once}")).await?;
        let (posted, in_time) = annotated(&space, size.pods, at_once).await?;
        rows.push(Row {
            who: "annotated",
            at_once,
            times: times(&posted),
            in_time: Some(in_time),
        });
    }
    Ok(rows)
}

async fn plain(who: &'static str, space: &Space, size: Size, at_once: usize) -> Result<Row> {
    let posted = space.post(Kind::Plain, size.pods, at_once).await?;
    Ok(Row {
        who,
        at_once,
        times: times(&posted),
        in_time: None,
    })
}

fn print(rows: &[Row], size: Size) {
    println!("\n**{} pods are created**\n", size.pods);
    println!(
        "| pods | at a time | POST p50 | POST p99 | added p50 | added p99 | claims there at the POST's return |"
    );
    println!("|---|---|---|---|---|---|---|");
    for row in rows {
        let same = |floor: &&Row| floor.at_once == row.at_once;
        // The floor is the first row with this number of concurrent requests.
        let floor = rows.iter().find(same).filter(|floor| floor.who != row.who);
        let added = floor.map_or("– | –".to_owned(), |floor| {
            row.times.cells_above(&floor.times)
        });
        let born = row.in_time.map_or("–".to_owned(), |in_time| {
            format!("{in_time} of {}", size.pods)
        });
        let (who, at_once, times) = (row.who, row.at_once, row.times.cells());
        println!("| {who} | {at_once} | {times} | {added} | {born} |");
    }
}
