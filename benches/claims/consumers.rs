//! The time until a volume may be provisioned if its class is `WaitForFirstConsumer`, and the time
//! until the claim is bound: for claims from annotations, and for claims that were created by hand
//! before their pods.

use crate::{
    Missed,
    book::{Book, Pages},
    each::each,
    figures::{Times, milliseconds},
    pods::{Kind, Posted, Space},
    scene,
    size::Size,
};
use anyhow::Result;
use k8s_openapi::api::{
    core::v1::{Event, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::json;
use std::time::{Duration, Instant};
use volume_warden_controlplane::Cluster;

/// The annotation that kube-controller-manager writes on a claim to start provisioning.
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The interval between pods. With a shorter one the benchmark would measure the scheduler, whose
/// client is limited to 50 calls a second.
const PACE: Duration = Duration::from_millis(50);
/// The number of rounds. The result is the median of the percentiles of the rounds.
const ROUNDS: usize = 3;

/// The provisioner of a class.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Provisioner {
    /// An external provisioner, which is not running: claims stay pending.
    External,
    /// The `host-path` provisioner of kube-controller-manager.
    InTree,
}

impl Provisioner {
    fn class(self) -> &'static str {
        match self {
            Self::External => "external",
            Self::InTree => "in-tree",
        }
    }

    async fn create_class(self, cluster: &Cluster) -> Result<()> {
        let provisioner = match self {
            Self::External => "example.com/none",
            Self::InTree => "kubernetes.io/host-path",
        };
        let class: StorageClass = serde_json::from_value(json!({
            "metadata": {"name": self.class()}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }))?;
        let classes = Api::all(cluster.client());
        classes.create(&PostParams::default(), &class).await?;
        Ok(())
    }

    fn is_through(self, life: &Life) -> bool {
        life.begun.is_some() && (self == Self::External || life.bound.is_some())
    }
}

/// The creator of the claims, the prefix of the pods' names, and the kind of the pods.
const WAYS: [(&str, &str, Kind); 2] = [
    ("by hand", "hand", Kind::Plain),
    ("annotated", "annotated", Kind::Annotated),
];

/// Times of the events of a claim.
#[derive(Clone, Default)]
struct Life {
    begun: Option<Instant>,
    bound: Option<Instant>,
}

impl Life {
    fn note(&mut self, claim: &PersistentVolumeClaim) {
        let now = Instant::now();
        if claim.annotations().contains_key(PROVISIONER) {
            self.begun.get_or_insert(now);
        }
        let status = claim.status.as_ref();
        if status.and_then(|status| status.phase.as_deref()) == Some("Bound") {
            self.bound.get_or_insert(now);
        }
    }
}

/// The results of one round for one creator.
struct Round {
    begun: Times,
    bound: Times,
    failures: usize,
}

/// The results of all rounds for one creator.
struct Row {
    provisioner: Provisioner,
    who: &'static str,
    rounds: Vec<Round>,
}

impl Row {
    fn median(&self, percent: usize, of: fn(&Round) -> &Times) -> Duration {
        let rounds = self.rounds.iter();
        let mut values: Vec<_> = rounds.map(|round| of(round).percentile(percent)).collect();
        values.sort_unstable();
        values.get(ROUNDS / 2).copied().unwrap_or_default()
    }

    fn begun(&self, percent: usize) -> Duration {
        self.median(percent, |round| &round.begun)
    }

    fn failures(&self) -> usize {
        self.rounds.iter().map(|round| round.failures).sum()
    }
}

/// Runs the part and prints its table.
pub async fn measure(size: Size) -> Result<Missed> {
    let quiet = ["node-lifecycle-controller", "taint-eviction-controller"];
    let builder = Cluster::without_in_tree()
        .nodes(1)
        .without_controllers(&quiet);
    let rows = scene::on(builder, async |cluster| rows(cluster, size).await).await?;
    print(&rows, size);
    Ok(rows.chunks_exact(2).flat_map(missed).collect())
}

async fn rows(cluster: &Cluster, size: Size) -> Result<Vec<Row>> {
    let _warden = scene::served(cluster).await?;
    let mut rows = Vec::new();
    for provisioner in [Provisioner::External, Provisioner::InTree] {
        provisioner.create_class(cluster).await?;
        let mut both = WAYS.map(|(who, ..)| Row {
            provisioner,
            who,
            rounds: Vec::new(),
        });
        // Warms up: the first pods of a class take longer.
        round(cluster, provisioner, "warm", size.pods / 10).await?;
        for number in 0..ROUNDS {
            let round = round(cluster, provisioner, &number.to_string(), size.pods).await?;
            for (row, round) in both.iter_mut().zip(round) {
                row.rounds.push(round);
            }
        }
        rows.extend(both);
    }
    Ok(rows)
}

/// Creates `count` pods for each creator, in a new namespace. The creators take turns, so that
/// other load on the machine slows both.
async fn round(
    cluster: &Cluster,
    provisioner: Provisioner,
    name: &str,
    count: usize,
) -> Result<[Round; 2]> {
    let class = provisioner.class();
    let name = format!("{class}-{name}");
    let space = scene::space(cluster, &name).await?.of_class(class);
    let mut book = Book::open(&space.claims, Life::note).await?;
    let posted = post(&space, count).await?;
    let lives = book
        .once(2 * count, |life| provisioner.is_through(life))
        .await?;
    let events: Api<Event> = Api::namespaced(cluster.client(), &name);
    let failed = ListParams::default().fields("reason=ProvisioningFailed");
    let failed = events.list(&failed).await?.items;
    Ok(WAYS.map(|(_, prefix, _)| {
        let own = posted.iter().filter(|pod| pod.name.starts_with(prefix));
        let own: Vec<_> = own.collect();
        let is_own = |event: &&Event| {
            let claim = event.involved_object.name.as_deref();
            own.iter().any(|pod| Some(&*pod.claim) == claim)
        };
        Round {
            begun: after(&own, &lives, |life| life.begun),
            bound: after(&own, &lives, |life| life.bound),
            failures: failed.iter().filter(is_own).count(),
        }
    }))
}

async fn post(space: &Space, count: usize) -> Result<Vec<Posted>> {
    let first = tokio::time::Instant::now();
    each(WAYS.len() * count, 1, async |index| {
        tokio::time::sleep_until(first + PACE * u32::try_from(index)?).await;
        let (_, prefix, kind) = WAYS[index % WAYS.len()];
        let name = format!("{prefix}-{index:05}");
        if kind == Kind::Plain {
            space.post_claim(&name).await?;
        }
        space.post_one(kind, &name).await
    })
    .await
}

/// Times since the response to each pod's POST.
fn after(
    posted: &[&Posted],
    lives: &Pages<Life>,
    when: impl Fn(&Life) -> Option<Instant>,
) -> Times {
    let times = posted.iter().filter_map(|pod| {
        let at = when(lives.get(&pod.claim)?)?;
        Some(at.saturating_duration_since(pod.returned))
    });
    times.collect()
}

fn print(rows: &[Row], size: Size) {
    println!(
        "\n**{} pods of each way, one every {PACE:?} and in turn, of a class that waits for its first pod; medians of {ROUNDS} rounds**\n",
        size.pods
    );
    println!(
        "| provisioner | claims | may be provisioned after: p50 | p90 | longest | bound after: p50 | p90 | ProvisioningFailed |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for row in rows {
        let begun = [50, 90, 100].map(|percent| milliseconds(row.begun(percent)));
        let bound = match row.provisioner {
            Provisioner::External => "– | –".to_owned(),
            Provisioner::InTree => [50, 90]
                .map(|percent| milliseconds(row.median(percent, |round| &round.bound)))
                .join(" | "),
        };
        let (class, who, begun) = (row.provisioner.class(), row.who, begun.join(" | "));
        println!(
            "| {class} | {who} | {begun} | {bound} | {} |",
            row.failures()
        );
    }
}

/// The missed limits of annotated pods compared with claims created by hand: p50 at most 1.1 times,
/// p90 at most 1.5 times plus half a second, and no failure.
fn missed(rows: &[Row]) -> Missed {
    let [by_hand, annotated] = rows else {
        return Missed::new();
    };
    let class = annotated.provisioner.class();
    let aims = [
        (50, by_hand.begun(50).mul_f64(1.1)),
        (
            90,
            by_hand.begun(90).mul_f64(1.5) + Duration::from_millis(500),
        ),
    ];
    let late = aims.into_iter().filter_map(|(percent, most)| {
        let found = annotated.begun(percent);
        let [found_in_words, most_in_words] = [found, most].map(milliseconds);
        (found > most).then(|| {
            format!("{class}: p{percent} is {found_in_words}, the limit is {most_in_words}")
        })
    });
    let failures = annotated.failures();
    let failed = (failures > 0).then(|| format!("{class}: {failures} ProvisioningFailed"));
    late.chain(failed).collect()
}
