//! Volume Warden is killed before or after any of its writes: every pod eventually has its claim,
//! and no claim waits for a pod.

use super::patient::{Patient, claim_posts, claim_write};
use super::support::{MARK, awaiting};
use anyhow::{Result, ensure};
use kube::{ResourceExt, api::ListParams};
use serde_json::json;
use volume_warden_controlplane::Rule;

/// Kills Volume Warden before its next write of this kind arrives, or before the response does.
async fn dies(patient: &Patient, at: Rule) -> Result<()> {
    let held = patient.between.add(at);
    let builder = patient.builder("warden").arg("--orphan-grace=1");
    let builder = builder.arg("--max-in-flight=1");
    let warden = builder.start().await?;
    held.held(1).await?;
    warden.process().kill()?;
    Ok(())
}

/// Names of more claims than are written between the kills, even if a kill comes late.
const MANY: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

async fn nothing_awaits_a_pod(patient: &Patient) -> Result<()> {
    let claims = &patient.askers.space.claims;
    for claim in claims.list_metadata(&ListParams::default()).await? {
        ensure!(
            !claim.annotations().contains_key(MARK),
            "{:?}",
            claim.metadata
        );
    }
    Ok(())
}

#[tokio::test]
async fn killed_while_claims_are_created() -> Result<()> {
    let patient = Patient::new("killed-making").await?;
    let askers = &patient.askers;
    let names = ["a", "b", "c", "d"];
    let kills = [
        Rule::hold,
        Rule::hold_response,
        Rule::hold_response,
        Rule::hold,
    ];
    let mut pods = Vec::new();
    // Claims are created concurrently, so each process gets a pod that the ones before have not
    // seen.
    for (name, at) in names.iter().zip(kills) {
        pods.push(askers.ask(name, name, json!({})).await?);
        dies(&patient, at(claim_posts())).await?;
    }
    let _successor = patient.start().await?;
    let mut uids = Vec::new();
    for (name, pod) in names.iter().zip(&pods) {
        uids.push(askers.belongs(name, pod).await?.uid());
    }
    askers.settled().await?;
    for (name, uid) in names.iter().zip(uids) {
        ensure!(
            askers.claim(name).await?.uid() == uid,
            "{name} was made twice"
        );
        // The process that created it may have been killed before it published the Event.
        ensure!(askers.pod_events(name).await?.len() <= 1);
    }
    nothing_awaits_a_pod(&patient).await
}

#[tokio::test]
async fn killed_while_claims_are_given_to_their_pods() -> Result<()> {
    let patient = Patient::new("killed-giving").await?;
    let askers = &patient.askers;
    let (mut pods, mut uids) = (Vec::new(), Vec::new());
    for name in MANY {
        uids.push(askers.create_claim(name, awaiting()).await?.uid());
        askers.bind(name).await?;
        pods.push(askers.ask(name, name, json!({})).await?);
    }
    for at in [
        Rule::hold,
        Rule::hold_response,
        Rule::hold_response,
        Rule::hold,
    ] {
        dies(&patient, at(claim_write("PATCH", ""))).await?;
    }
    let _successor = patient.start().await?;
    for ((name, pod), uid) in MANY.iter().zip(&pods).zip(uids) {
        ensure!(
            askers.belongs(name, pod).await?.uid() == uid,
            "{name} is another"
        );
    }
    nothing_awaits_a_pod(&patient).await
}

#[tokio::test]
async fn killed_while_claims_are_collected() -> Result<()> {
    let patient = Patient::new("killed-collecting").await?;
    let (askers, space) = (&patient.askers, &patient.askers.space);
    for name in MANY {
        askers.create_claim(name, awaiting()).await?;
    }
    let kept = askers.create_claim("kept", json!({})).await?;
    for at in [
        Rule::hold,
        Rule::hold_response,
        Rule::hold_response,
        Rule::hold,
    ] {
        dies(&patient, at(claim_write("DELETE", ""))).await?;
    }
    let _successor = patient.start_impatient().await?;
    for name in MANY {
        space.claim_is_gone(name).await?;
    }
    ensure!(askers.claim("kept").await?.uid() == kept.uid());
    nothing_awaits_a_pod(&patient).await
}
