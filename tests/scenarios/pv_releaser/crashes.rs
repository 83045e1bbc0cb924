//! Volume Warden is killed again and again: no volume of Volume Warden stays Released.

use super::{
    patient::{Patient, watch_of},
    support::PROVISIONER,
};
use anyhow::Result;
use serde_json::json;
use volume_warden_controlplane::{Rule, eventually};

/// More than deaths, because more than one write may get through before a death.
const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

impl Patient {
    /// Killed before the next write of a volume has arrived, or after that but before its answer has.
    async fn dies(&self, at: fn(Rule) -> Rule) -> Result<()> {
        let write = self.write_of("");
        let held = self.between.add(at(write));
        // One write at a time: there is no other on the way.
        let warden = self.builder().arg("--max-in-flight=1").start().await?;
        held.held(1).await?;
        warden.process().kill()?;
        Ok(())
    }
}

/// Before and after both writes: the label, and the release.
#[tokio::test]
async fn killed_at_any_write_no_volume_stays_released() -> Result<()> {
    let patient = Patient::new("killed").await?;
    let (estate, id) = (&patient.estate, patient.estate.id());
    for name in NAMES {
        estate.pair(name, json!({PROVISIONER: id})).await?;
    }
    let moments = [
        Rule::hold,
        Rule::hold_response,
        Rule::hold_response,
        Rule::hold,
    ];
    for at in moments {
        patient.dies(at).await?;
    }
    let successor = patient.start().await?;
    for name in NAMES {
        estate.is_labelled(name, id).await?;
    }
    drop(successor);
    for name in NAMES {
        estate.space.delete_claim(name).await?;
        estate.is(name, "Released").await?;
    }
    for at in moments {
        patient.dies(at).await?;
    }
    let _successor = patient.start().await?;
    for name in NAMES {
        estate.is_free(name).await?;
    }
    patient.settled().await?;
    for name in NAMES {
        // The killed process may not have published the Event, but no process publishes it twice.
        let reported = estate.reported_of(name, "Released").await?;
        assert!(reported.len() <= 1, "{reported:?}");
        estate.is_free(name).await?;
    }
    Ok(())
}

/// The same, all at once: claims go while it is being killed, and labels and releases are on the way together.
#[tokio::test]
async fn killed_in_the_middle_of_many_claims_ends_no_volume_stays_released() -> Result<()> {
    let patient = Patient::new("killed-often").await?;
    let (estate, id) = (&patient.estate, patient.estate.id());
    let names: Vec<_> = (0..12).map(|n| format!("data{n}")).collect();
    for name in &names {
        estate.pair(name, json!({PROVISIONER: id})).await?;
    }
    let warden = patient.start().await?;
    for name in &names {
        estate.is_labelled(name, id).await?;
    }
    drop(warden);
    for (round, names) in names.chunks(3).enumerate() {
        let at = [Rule::hold, Rule::hold_response][round % 2];
        let writes = || {
            let writes = names.iter().map(|name| patient.writes(name));
            writes.collect::<Vec<_>>()
        };
        let before = writes();
        let _held = patient.between.add(at(patient.write_of("")));
        let warden = patient.start().await?;
        for name in names {
            estate.space.delete_claim(name).await?;
        }
        // Not all of them need be held at the same time: each is given up some time.
        eventually("the release of each is on its way", async || {
            let writes = writes();
            writes.iter().zip(&before).all(|(now, before)| now > before)
        })
        .await?;
        warden.process().kill()?;
    }
    let _successor = patient.start().await?;
    for name in &names {
        estate.is_free(name).await?;
    }
    Ok(())
}

/// Its claims go with it, all at once, and their labels.
#[tokio::test]
async fn a_namespace_that_is_deleted_gives_its_volumes_back() -> Result<()> {
    let patient = Patient::new("ending").await?;
    let (estate, id) = (&patient.estate, patient.estate.id());
    let _warden = patient.start().await?;
    for name in NAMES {
        estate.pair(name, json!({PROVISIONER: id})).await?;
        estate.is_labelled(name, id).await?;
    }
    // Of the last one no client has heard before the end.
    let late = patient
        .between
        .add(watch_of("persistentvolumes").freeze_stream());
    estate.pair("late", json!({PROVISIONER: id})).await?;
    let delete = ["delete", "namespace", id, "--wait=false"];
    estate.space.cluster.kubectl(&delete).await?;
    for name in NAMES.iter().chain(&["late"]) {
        estate.is(name, "Released").await?;
    }
    drop(late);
    for name in NAMES.iter().chain(&["late"]) {
        estate.is_free(name).await?;
    }
    Ok(())
}
