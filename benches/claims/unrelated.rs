//! The cost of thousands of volumes and pods that need no action.

use crate::{
    Missed,
    book::Birth,
    calls::{FURTHER, Tally},
    crowd,
    pods::{Kind, Space},
    scene,
    size::Size,
    stage::install,
};
use anyhow::Result;
use tokio::time::Instant;
use volume_warden_controlplane::{Cluster, Warden};

/// The namespace of the objects that need no action.
const CROWDED: &str = "crowded";
/// One additional GET of a claim for this many pods is permitted.
const SELDOM: usize = 10;

/// The counted calls.
struct Outcome {
    /// Calls since Volume Warden's start, without and with the other objects.
    starts: [Tally; 2],
    /// Calls for annotated pods: without other objects, with them in another namespace, and with
    /// them in the same namespace.
    births: [Tally; 3],
}

/// Runs the part and prints its tables.
pub async fn measure(size: Size) -> Result<Missed> {
    let outcome = scene::on(scene::still(), async |cluster| count(cluster, size).await).await?;
    let (window, others) = (size.window.as_secs(), size.unrelated);
    println!("\n**{others} volumes and {others} pods without annotations**\n");
    let [alone, among] = &outcome.starts;
    println!(
        "| calls in the first {window} s | without other objects | among the others, each of them changed once |"
    );
    print(&[alone, among]);
    let [alone, elsewhere, there] = &outcome.births;
    println!(
        "\n| calls for {} annotated pods | without other objects | the others elsewhere | the others in the same namespace |",
        size.counted
    );
    print(&[alone, elsewhere, there]);
    Ok(outcome.missed(size))
}

fn print(tallies: &[&Tally]) {
    println!("|---{}|", "|---".repeat(tallies.len()));
    for kind in Tally::kinds(tallies) {
        let counts: Vec<_> = tallies
            .iter()
            .map(|tally| tally.of(kind).to_string())
            .collect();
        println!("| {kind} | {} |", counts.join(" | "));
    }
}

impl Outcome {
    fn missed(&self, size: Size) -> Missed {
        let [started, among] = &self.starts;
        let [alone, elsewhere, there] = &self.births;
        let more = |now: &Tally, before: &Tally, pages: Pages, when: &str| -> Missed {
            let above = now.above(before).filter(|kind| {
                let as_many = pages == Pages::ByObjects && kind.starts_with(FURTHER);
                !as_many && !is_by_chance(kind, now.of(kind), size)
            });
            let said = |kind| format!("more calls {when}: {kind}");
            above.map(said).collect()
        };
        [
            more(among, started, Pages::ByObjects, "at the start"),
            more(elsewhere, alone, Pages::Same, "with the others elsewhere"),
            more(
                there,
                alone,
                Pages::ByObjects,
                "with the others in the same namespace",
            ),
        ]
        .concat()
    }
}

/// The permitted number of pages of a LIST.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    /// As many as the objects need.
    ByObjects,
    /// As many as without the other objects.
    Same,
}

/// Whether the calls are permitted additional GETs: if the watch of pods is ahead of the watch of
/// claims, Volume Warden reads a claim once more, which is rare.
fn is_by_chance(kind: &str, count: usize, size: Size) -> bool {
    kind == "get persistentvolumeclaims" && count <= size.counted.div_ceil(SELDOM)
}

async fn count(cluster: &Cluster, size: Size) -> Result<Outcome> {
    scene::hold_pods(cluster)?;
    install(cluster).await?;
    let [quiet, elsewhere, crowded] = [
        scene::space(cluster, "quiet").await?,
        scene::space(cluster, "elsewhere").await?,
        scene::space(cluster, CROWDED).await?,
    ];
    // Not counted: the first start creates the certificate and publishes its CA.
    let first = scene::warden(cluster).serving().start().await?;
    first.stop().await?;
    let (warden, alone) = start(cluster, size, async || Ok(())).await?;
    let quiet = births(cluster, &quiet, size).await?;
    warden.stop().await?;
    crowd::fill(cluster, CROWDED, size.unrelated).await?;
    let touch = async || crowd::touch(cluster, CROWDED).await;
    let (_warden, among) = start(cluster, size, touch).await?;
    let elsewhere = births(cluster, &elsewhere, size).await?;
    let crowded = births(cluster, &crowded, size).await?;
    Ok(Outcome {
        starts: [alone, among],
        births: [quiet, elsewhere, crowded],
    })
}

/// Starts Volume Warden and calls `touch`. Counts the calls from before the start to the end of the
/// window.
async fn start(
    cluster: &Cluster,
    size: Size,
    touch: impl AsyncFnOnce() -> Result<()>,
) -> Result<(Warden, Tally)> {
    let audit = cluster.audit();
    let mark = audit.mark()?;
    let warden = scene::warden(cluster).serving().start().await?;
    let end = Instant::now() + size.window;
    scene::webhook_answers(cluster).await?;
    touch().await?;
    tokio::time::sleep_until(end).await;
    Ok((warden, Tally::settled(&audit, mark).await?))
}

async fn births(cluster: &Cluster, space: &Space, size: Size) -> Result<Tally> {
    let audit = cluster.audit();
    let mark = audit.mark()?;
    one_by_one(space, size.counted).await?;
    Tally::settled(&audit, mark).await
}

/// Creates pods sequentially, each after the previous pod owns its claim: concurrent pods would
/// share calls at random. Also sets the claims to Bound, because no binder is running.
async fn one_by_one(space: &Space, count: usize) -> Result<()> {
    let mut book = Birth::book(&space.claims).await?;
    for index in 0..count {
        let name = format!("{index:05}");
        space.post_one(Kind::Annotated, &name).await?;
        book.once(index + 1, |claim| claim.created.is_some())
            .await?;
        space.bind(&name).await?;
        book.once(index + 1, |claim| claim.given.is_some()).await?;
    }
    Ok(())
}
