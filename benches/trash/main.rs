//! The cost of the trash, with a CSI driver and the released external-provisioner.
//!
//! - *bound*: claims are created sequentially, alternately of a class with an undelete window
//!   and of a class without. The time is from the POST until a watch shows the claim Bound.
//! - *retain*: a namespace with volumes of the policy Retain is deleted, without Volume Warden.
//!   The time is from the DELETE until a watch shows the last volume Released.
//! - *trash*: the same for a class with an undelete window, until the last volume is in the trash.
//!   Then some of the volumes are purged, until the provisioner has deleted the last one.
//!
//! `cargo bench --bench trash`, or with other numbers and only some parts:
//! `cargo bench --bench trash -- 100x500x200 bound` (claims of each class in *bound*, claims of the
//! namespace, volumes that are purged). It fails if a volume does not match its class, or if the
//! driver has an unexpected number of volumes after the purge.

#[path = "../shared/each.rs"]
mod each;
#[path = "../shared/follow.rs"]
mod follow;
mod namespace;
mod part;
mod purges;
mod stand;
#[path = "../shared/times.rs"]
mod times;
#[path = "../shared/turns.rs"]
mod turns;

use anyhow::{Context, Result};
use part::{Outcome, Part};
use times::Times;
use turns::{arguments, in_turn};

/// The numbers of objects of a run.
#[derive(Clone, Copy)]
pub struct Size {
    /// Claims of each class that are created sequentially.
    created: usize,
    /// Claims of the namespace that is deleted.
    deleted: usize,
    /// Volumes that are purged.
    purged: usize,
}

const DEFAULT: &str = "300x3000x1000";
const PARTS: [Part; 3] = [Part::Bound, Part::Retain, Part::Trash];

#[tokio::main]
async fn main() -> Result<()> {
    let (mut sizes, parts) = arguments();
    if sizes.is_empty() {
        sizes.push(DEFAULT.to_owned());
    }
    for size in sizes {
        let size = parse(&size)?;
        in_turn(PARTS, &parts, async |part: Part| {
            let outcome = part.measure(size).await?;
            print(size, &outcome);
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Parses a size such as `300x3000x1000`.
fn parse(size: &str) -> Result<Size> {
    let wrong = || format!("{size} is not CREATEDxDELETEDxPURGED");
    let numbers: Vec<usize> = size
        .split('x')
        .map(|number| number.parse().with_context(wrong))
        .collect::<Result<_>>()?;
    let [created, deleted, purged] = numbers[..] else {
        anyhow::bail!(wrong());
    };
    anyhow::ensure!(purged <= deleted, "{purged} of {deleted} are to be purged");
    Ok(Size {
        created,
        deleted,
        purged,
    })
}

fn print(size: Size, outcome: &Outcome) {
    match outcome {
        Outcome::Bound { without, with } => print_bound(size, without, with),
        Outcome::Retain { released } => {
            println!(
                "\n**A namespace with {} claims is deleted**\n",
                size.deleted
            );
            println!("| who | last Released after | last in the trash after |\n|---|---|---|");
            println!("| Retain, without Volume Warden | {released:.1} s | – |");
        }
        Outcome::Trash {
            released,
            in_trash,
            purges,
        } => {
            println!(
                "\n**A namespace with {} claims is deleted**\n",
                size.deleted
            );
            println!("| who | last Released after | last in the trash after |\n|---|---|---|");
            println!("| volume-warden | {released:.1} s | {in_trash:.1} s |");
            println!("\n**{} of these volumes are purged**\n", size.purged);
            println!("| last purged after | last deleted by the provisioner after |\n|---|---|");
            println!("| {:.1} s | {:.1} s |", purges.purged, purges.deleted);
        }
    }
}

fn print_bound(size: Size, without: &Times, with: &Times) {
    println!(
        "\n**{} claims of each class, one after the other**\n",
        size.created
    );
    println!("| class | Bound after: p50 | p99 | added p50 | added p99 |\n|---|---|---|---|---|");
    println!("| without a window | {} | – | – |", without.cells());
    let added = with.cells_above(without);
    println!("| with a window | {} | {added} |", with.cells());
}
