//! Sequential admission reviews of claims.

use crate::{scheduling, times::Times};
use anyhow::{Context, Result, anyhow, ensure};
use k8s_openapi::api::core::v1::Secret;
use reqwest::Client;
use serde_json::Value;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The pause between two reviews.
const PAUSE: Duration = Duration::from_millis(2);
const BODY: &str = include_str!("../admission/review.json");

/// The durations of reviews, and the delays with which the thread of the client resumed after its
/// pauses. A review takes at least as long as a thread waits for a core.
pub struct Measured {
    pub reviews: Times,
    pub late: Times,
}

/// A client that has the secret path of the webhook.
pub struct Reviews {
    url: String,
}

impl Reviews {
    pub fn new(port: u16, secret: &Value) -> Result<Self> {
        let secret: Secret = serde_json::from_value(secret.clone())?;
        let data = secret.data.context("the Secret has no data")?;
        let path = data.get("path").context("the Secret has no path")?;
        let path = String::from_utf8(path.0.clone())?;
        let url = format!("https://127.0.0.1:{port}/{path}/pvc-protection/claims");
        Ok(Self { url })
    }

    /// Measures reviews until `work` ends. A separate thread sends them, so that they do not wait
    /// for the model.
    pub async fn during(&self, work: impl Future<Output = Result<()>>) -> Result<Measured> {
        let ended = Arc::new(AtomicBool::new(false));
        let (url, until) = (self.url.clone(), ended.clone());
        let reviews = thread::spawn(move || {
            scheduling::before_others();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(send(&url, &until))
        });
        let done = work.await;
        ended.store(true, Ordering::Relaxed);
        let times = reviews.join().map_err(|_| anyhow!("the client panicked"))?;
        done?;
        let (reviews, late): (Vec<_>, Vec<_>) = times?.into_iter().unzip();
        Ok(Measured {
            reviews: reviews.into_iter().collect(),
            late: late.into_iter().collect(),
        })
    }
}

async fn send(url: &str, ended: &AtomicBool) -> Result<Vec<(Duration, Duration)>> {
    let client = Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .build()?;
    let mut times = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        let began = Instant::now();
        let request = client.post(url).body(BODY);
        let request = request.header("content-type", "application/json");
        let answer = request.send().await?.text().await?;
        ensure!(answer.contains("\"allowed\":true"), "{answer}");
        let (took, pause) = (began.elapsed(), Instant::now());
        // Blocks the thread, because a timer of the runtime would add up to a millisecond.
        thread::sleep(PAUSE);
        times.push((took, pause.elapsed().saturating_sub(PAUSE)));
    }
    Ok(times)
}
