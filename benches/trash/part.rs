//! The parts of the benchmark, each on its own control plane.

use crate::{
    Size,
    follow::{CONNECTION, follow},
    namespace::{Deleted, delete_namespace},
    purges::{Purges, purge},
    stand::{RECORD, Stand, claim, policy},
    times::Times,
    turns::Turn,
};
use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{
    Api, ResourceExt,
    api::{PostParams, WatchEvent, WatchParams},
};
use serde_json::json;
use std::time::{Duration, Instant};

const WINDOW: &str = "volume-warden.dev/undelete-window";
const WITHOUT: &str = "without";
const WITH: &str = "with";

/// A part of the benchmark.
#[derive(Clone, Copy)]
pub enum Part {
    Bound,
    Retain,
    Trash,
}

/// The results of a part. `released` and `in_trash` are in seconds.
pub enum Outcome {
    Bound {
        without: Times,
        with: Times,
    },
    Retain {
        released: f64,
    },
    Trash {
        released: f64,
        in_trash: f64,
        purges: Purges,
    },
}

impl Turn for Part {
    fn name(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::Retain => "retain",
            Self::Trash => "trash",
        }
    }
}

impl Part {
    pub async fn measure(self, size: Size) -> Result<Outcome> {
        let stand = Stand::new(!matches!(self, Self::Retain)).await?;
        let outcome = self.measure_on(&stand, size).await;
        stand.stop().await;
        outcome
    }

    async fn measure_on(self, stand: &Stand, size: Size) -> Result<Outcome> {
        let window = json!({WINDOW: "72h"});
        match self {
            Self::Bound => {
                stand.create_class(WITHOUT, "Delete", json!({})).await?;
                stand.create_class(WITH, "Delete", window).await?;
                bound(stand, size.created).await
            }
            Self::Retain => {
                stand.create_class(WITHOUT, "Retain", json!({})).await?;
                let Deleted { released, .. } =
                    delete_namespace(stand, WITHOUT, size.deleted, false).await?;
                Ok(Outcome::Retain { released })
            }
            Self::Trash => {
                stand.create_class(WITH, "Delete", window).await?;
                let Deleted { released, in_trash } =
                    delete_namespace(stand, WITH, size.deleted, true).await?;
                let purges = purge(stand, size).await?;
                Ok(Outcome::Trash {
                    released,
                    in_trash,
                    purges,
                })
            }
        }
    }
}

/// Creates claims of both classes alternately. In the second half, the other class is first.
async fn bound(stand: &Stand, count: usize) -> Result<Outcome> {
    let (mut without, mut with) = (Times::default(), Times::default());
    let halves = [0..count / 2, count / 2..count];
    for (classes, half) in [[WITHOUT, WITH], [WITH, WITHOUT]].into_iter().zip(halves) {
        let mut times = [Vec::new(), Vec::new()];
        for index in half {
            for (class, times) in classes.into_iter().zip(&mut times) {
                times.push(until_bound(stand, class, &format!("{class}-{index}")).await?);
            }
        }
        if classes[0] == WITH {
            times.reverse();
        }
        let [first, second] = times.map(|times| times.into_iter().collect());
        (without, with) = (without.and(first), with.and(second));
    }
    Ok(Outcome::Bound { without, with })
}

/// Creates a claim, and returns the time until a watch shows it Bound.
async fn until_bound(stand: &Stand, class: &str, name: &str) -> Result<Duration> {
    let claims = stand.claims("default");
    let wanted = claim(name, class)?;
    let started = Instant::now();
    let created = claims.create(&PostParams::default(), &wanted).await?;
    let version = created.resource_version().context("no version")?;
    let mut volume = String::new();
    follow(
        version,
        |version| open(&claims, name, version),
        |event| {
            if let WatchEvent::Modified(claim) = event
                && is_bound(claim)
            {
                let spec = claim.spec.clone().unwrap_or_default();
                volume = spec.volume_name.unwrap_or_default();
            }
            !volume.is_empty()
        },
    )
    .await?;
    let time = started.elapsed();
    let volume = stand.volumes.get(&volume).await?;
    let recorded = volume.annotations().contains_key(RECORD);
    let expected = match class {
        WITH => recorded && policy(&volume) == "Retain",
        _ => !recorded && policy(&volume) == "Delete",
    };
    ensure!(expected, "{class}: {volume:?}");
    Ok(time)
}

async fn open(
    claims: &Api<PersistentVolumeClaim>,
    name: &str,
    version: String,
) -> kube::Result<crate::follow::Events<PersistentVolumeClaim>> {
    let parameters = WatchParams::default()
        .fields(&format!("metadata.name={name}"))
        .timeout(CONNECTION);
    let events = claims.watch(&parameters, &version).await?;
    Ok(events.boxed())
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let status = claim.status.as_ref();
    status.and_then(|status| status.phase.as_deref()) == Some("Bound")
}
