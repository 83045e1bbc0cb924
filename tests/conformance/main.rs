//! The model of the API server, which the simulation uses, answers as a real API server does.
//!
//! Generated sequences of requests are sent to both. Status codes, answers and watch events have to
//! be equal, except for what [`comparable`] leaves out, each with its reason.

mod comparable;
mod generate;
mod operation;
mod sequence;
mod sides;

use anyhow::{Context as _, Result};
use futures::{StreamExt, stream};
use volume_warden_controlplane::Cluster;

/// The number of sequences in a normal run and in a soak run.
const SEQUENCES: [u64; 2] = [200, 2_000];
/// Sequences that run at the same time.
const AT_ONCE: usize = 12;
/// The environment variable that sets the seed, to repeat a failed run.
const SEED: &str = "VOLUME_WARDEN_SEED";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_answers_as_the_api_server_does() -> Result<()> {
    let seed = match std::env::var(SEED) {
        Ok(seed) => seed.parse().context(SEED)?,
        Err(_) => fastrand::u64(..1 << 32),
    };
    println!("{SEED}={seed}");
    let soak = std::env::var_os("VOLUME_WARDEN_SOAK").is_some_and(|value| value == "1");
    // Only the API server is compared. Controllers would change the objects of one side.
    let cluster = Cluster::api_server().name("conformance").start().await?;
    let client = cluster.client();
    let sequences = stream::iter(0..SEQUENCES[usize::from(soak)]).map(|number| {
        let client = client.clone();
        tokio::spawn(async move { sequence::compare(client, seed, number).await })
    });
    let mut sequences = sequences.buffer_unordered(AT_ONCE);
    let mut differences = Vec::new();
    while let Some(compared) = sequences.next().await {
        differences.extend(compared??);
    }
    cluster.stop().await;
    let count = differences.len();
    differences.truncate(5);
    assert!(
        count == 0,
        "{count} differences:\n{}",
        differences.join("\n")
    );
    Ok(())
}
