//! POSTs of pods, and everything that the API server answers.

use crate::{
    pvc_provisioner::support::{Askers, asking},
    support::Space,
};
use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use volume_warden_controlplane::{Cluster, eventually};

/// What the API server answered.
#[derive(Debug)]
pub struct Posted {
    pub code: u16,
    /// As `kubectl` shows them.
    pub warnings: Vec<String>,
    pub body: String,
}

impl Posted {
    /// What was created.
    pub fn object<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.body).with_context(|| self.body.clone())
    }

    /// Some warning contains this.
    pub fn says(&self, part: &str) -> bool {
        self.warnings.iter().any(|warning| warning.contains(part))
    }
}

/// Creates the pod as an admin, with this query.
pub async fn post(space: &Space, pod: &Pod, query: &str) -> Result<Posted> {
    post_as(None, space, pod, query).await
}

/// The same as somebody: a user, and a group that user is in.
pub async fn post_as(
    who: Option<(&str, &str)>,
    space: &Space,
    pod: &Pod,
    query: &str,
) -> Result<Posted> {
    let url = format!("/api/v1/namespaces/{}/pods?{query}", space.name);
    let mut request = http::Request::post(url).header("content-type", "application/json");
    if let Some((user, group)) = who {
        request = request
            .header("impersonate-user", user)
            .header("impersonate-group", group);
    }
    let request = request.body(Body::from(serde_json::to_vec(pod)?))?;
    let response = space.cluster.client().send(request).await?;
    let (head, body) = response.into_parts();
    let headers = head.headers.get_all("warning").into_iter();
    let warnings = headers.map(|header| std::str::from_utf8(header.as_bytes()).map(warning));
    Ok(Posted {
        code: head.status.as_u16(),
        warnings: warnings.collect::<Result<_, _>>()?,
        body: String::from_utf8(body.collect_bytes().await?.to_vec())?,
    })
}

/// The text of `299 - "text"`.
fn warning(header: &str) -> String {
    let quoted = header.split_once('"').map_or(header, |(_, rest)| rest);
    let text = quoted.strip_suffix('"').unwrap_or(quoted);
    text.replace("\\\"", "\"").replace("\\\\", "\\")
}

/// What has the answer to a POST in it.
pub trait Answered {
    /// The sentences that whoever asked was shown.
    fn shown(&self) -> String;
}

impl Answered for Posted {
    fn shown(&self) -> String {
        self.warnings.join(" ")
    }
}

impl<T> Answered for (Posted, T) {
    fn shown(&self) -> String {
        self.0.shown()
    }
}

/// Of kubectl.
impl Answered for String {
    fn shown(&self) -> String {
        self.clone()
    }
}

/// What comes of a pod of [`asking`] whose claim has its name.
pub async fn asked(askers: &Askers, changes: Value, query: &str) -> Result<Posted> {
    reviewed(askers, async |name| {
        let pod = asking(name, name, changes.clone())?;
        post(&askers.space, &pod, query).await
    })
    .await
}

/// The same, and the claim that is there when the answer is.
pub async fn asked_for(askers: &Askers) -> Result<(Posted, PersistentVolumeClaim)> {
    let (posted, claim) = reviewed(askers, async |name| {
        let posted = post(&askers.space, &asking(name, name, json!({}))?, "").await?;
        Ok((posted, askers.space.claims.get_opt(name).await?))
    })
    .await?;
    let claim = claim.with_context(|| format!("there is no claim: {posted:?}"))?;
    Ok((posted, claim))
}

/// What comes of creating a pod of the name that is handed in, where all calls of the review were answered in time.
pub async fn reviewed<T: Answered>(
    askers: &Askers,
    create: impl AsyncFnMut(&str) -> Result<T>,
) -> Result<T> {
    let in_time = |created: &T| !created.shown().contains("the API server did not answer");
    first(askers, create, in_time).await
}

/// The same where the webhook was heard in time, whatever became of its calls.
pub async fn heard<T>(askers: &Askers, create: impl AsyncFnMut(&str) -> Result<T>) -> Result<T> {
    first(askers, create, |_| true).await
}

/// On a busy machine a webhook may be too late, for one pod or another, and after a start nobody has heard of it yet.
async fn first<T>(
    askers: &Askers,
    mut create: impl AsyncFnMut(&str) -> Result<T>,
    in_time: impl Fn(&T) -> bool,
) -> Result<T> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let cluster = askers.space.cluster;
    let first = eventually("the webhook is heard in time", async || {
        let name = format!("pod{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let before = too_late(cluster).await?;
        let created = create(&name).await;
        let heard = too_late(cluster).await? == before;
        // What went wrong otherwise is an answer, not one more try.
        let wanted = heard && created.as_ref().map_or(true, &in_time);
        anyhow::Ok(Some(created).filter(|_| wanted))
    });
    first.await?
}

/// How often the API server has not waited for the webhook.
pub async fn too_late(cluster: &Cluster) -> Result<String> {
    let request = http::Request::get("/metrics").body(vec![])?;
    let metrics = cluster.client().request_text(request).await?;
    let ours = |line: &&str| {
        line.starts_with("apiserver_admission_webhook_fail_open_count")
            && line.contains("pods.pvc-provisioner")
    };
    Ok(metrics.lines().filter(ours).collect())
}
