//! POSTs of pods, and the complete responses of the API server.

use crate::{
    pvc_provisioner::support::{Askers, asking},
    support::{Space, failed_open},
};
use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use volume_warden_controlplane::{Cluster, eventually};

/// A response of the API server.
#[derive(Debug)]
pub struct Posted {
    pub code: u16,
    /// As `kubectl` shows them.
    pub warnings: Vec<String>,
    pub body: String,
}

impl Posted {
    /// The created object.
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

/// Like [`post`], as a user and a group of that user.
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

/// A response to a POST.
pub trait Answered {
    /// The sentences that the requester was shown.
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

/// Creates a pod of [`asking`] whose claim has the pod's name.
pub async fn asked(askers: &Askers, changes: Value, query: &str) -> Result<Posted> {
    reviewed(askers, async |name| {
        let pod = asking(name, name, changes.clone())?;
        post(&askers.space, &pod, query).await
    })
    .await
}

/// Like [`asked`]; also returns the claim that exists when the response arrives.
pub async fn asked_for(askers: &Askers) -> Result<(Posted, PersistentVolumeClaim)> {
    let (posted, claim) = reviewed(askers, async |name| {
        let posted = post(&askers.space, &asking(name, name, json!({}))?, "").await?;
        Ok((posted, askers.space.claims.get_opt(name).await?))
    })
    .await?;
    let claim = claim.with_context(|| format!("there is no claim: {posted:?}"))?;
    Ok((posted, claim))
}

/// Calls `create` with new pod names until all API calls of one review were answered in time.
pub async fn reviewed<T: Answered>(
    askers: &Askers,
    create: impl AsyncFnMut(&str) -> Result<T>,
) -> Result<T> {
    let in_time = |created: &T| !created.shown().contains("the API server did not answer");
    first(askers, create, in_time).await
}

/// Calls `create` with new pod names until the webhook answers in time, even if its calls fail.
pub async fn heard<T>(askers: &Askers, create: impl AsyncFnMut(&str) -> Result<T>) -> Result<T> {
    first(askers, create, |_| true).await
}

/// On a busy machine a webhook may time out for some pods, and after a start the API server does
/// not call it yet.
async fn first<T>(
    askers: &Askers,
    mut create: impl AsyncFnMut(&str) -> Result<T>,
    in_time: impl Fn(&T) -> bool,
) -> Result<T> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let cluster = &askers.space.cluster;
    let first = eventually("the webhook answers in time", async || {
        let name = format!("pod{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let before = too_late(cluster).await?;
        let created = create(&name).await;
        let heard = too_late(cluster).await? == before;
        // Any other failure is a result and is not retried.
        let wanted = heard && created.as_ref().map_or(true, &in_time);
        anyhow::Ok(Some(created).filter(|_| wanted))
    });
    first.await?
}

/// The API server's counts of webhook calls that failed open.
pub async fn too_late(cluster: &Cluster) -> Result<String> {
    failed_open(cluster, "pods.pvc-provisioner").await
}
