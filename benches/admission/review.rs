//! The admission review that is sent, and the expected response.

use anyhow::{Context, Result, ensure};
use json_patch::Patch;
use k8s_openapi::ByteString;
use reqwest::Client;
use serde_json::{Value, json};

/// A claim's CREATE as the API server 1.34 sends it.
const REVIEW: &str = include_str!("review.json");

/// The review without whitespace, as sent over the network.
pub fn body() -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(&review()?)?)
}

fn review() -> Result<Value> {
    Ok(serde_json::from_str(REVIEW)?)
}

/// Sends one review. Fails unless the response adds the finalizer and changes nothing else.
pub async fn answers(client: &Client, url: &str) -> Result<()> {
    let answer = client.post(url).body(body()?);
    let answer = answer.header("content-type", "application/json").send();
    let answer = answer.await?.error_for_status()?.bytes().await?;
    let answer: Value = serde_json::from_slice(&answer)?;
    let (mut review, response) = (review()?, &answer["response"]);
    ensure!(response["allowed"] == true, "{answer}");
    ensure!(response["uid"] == review["request"]["uid"], "{answer}");
    let patch: ByteString = serde_json::from_value(response["patch"].clone())?;
    let patch: Patch = serde_json::from_slice(&patch.0)?;
    let mut claim = review["request"]["object"].take();
    let mut wanted = claim.clone();
    wanted["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
    json_patch::patch(&mut claim, &patch).context("the patch")?;
    ensure!(claim == wanted, "{claim}");
    Ok(())
}
