//! POST requests of pods, and the complete responses of the API server.

use crate::{
    pvc_provisioner::support::{PodSpace, requesting_pod},
    support::{Space, failed_open},
};
use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use volume_warden_controlplane::{Cluster, eventually};

/// The response of the API server to the POST of a pod.
#[derive(Debug)]
pub struct PostResponse {
    /// The HTTP status code.
    pub code: u16,
    /// The texts of the warning headers, as `kubectl` shows them.
    pub warnings: Vec<String>,
    pub body: String,
}

impl PostResponse {
    /// The created object.
    pub fn object<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.body).with_context(|| self.body.clone())
    }

    /// Whether a warning contains `part`.
    pub fn has_warning(&self, part: &str) -> bool {
        self.warnings.iter().any(|warning| warning.contains(part))
    }
}

/// Creates the pod as an administrator, with this query in the URL.
pub async fn post(space: &Space, pod: &Pod, query: &str) -> Result<PostResponse> {
    post_as(None, space, pod, query).await
}

/// Like [`post`], as this user and group. `None` means the administrator.
pub async fn post_as(
    requester: Option<(&str, &str)>,
    space: &Space,
    pod: &Pod,
    query: &str,
) -> Result<PostResponse> {
    let url = format!("/api/v1/namespaces/{}/pods?{query}", space.name);
    let mut request = http::Request::post(url).header("content-type", "application/json");
    if let Some((user, group)) = requester {
        request = request
            .header("impersonate-user", user)
            .header("impersonate-group", group);
    }
    let request = request.body(Body::from(serde_json::to_vec(pod)?))?;
    let response = space.cluster.client().send(request).await?;
    let (head, body) = response.into_parts();
    let headers = head.headers.get_all("warning").into_iter();
    let warnings = headers.map(|header| std::str::from_utf8(header.as_bytes()).map(warning));
    Ok(PostResponse {
        code: head.status.as_u16(),
        warnings: warnings.collect::<Result<_, _>>()?,
        body: String::from_utf8(body.collect_bytes().await?.to_vec())?,
    })
}

/// The text of a warning header, which has the form `299 - "text"`.
fn warning(header: &str) -> String {
    let quoted = header.split_once('"').map_or(header, |(_, rest)| rest);
    let text = quoted.strip_suffix('"').unwrap_or(quoted);
    text.replace("\\\"", "\"").replace("\\\\", "\\")
}

/// The result of a POST, which has warnings.
pub trait WarningsText {
    /// All warnings that the API server returned.
    fn warnings_text(&self) -> String;
}

impl WarningsText for PostResponse {
    fn warnings_text(&self) -> String {
        self.warnings.join(" ")
    }
}

impl<T> WarningsText for (PostResponse, T) {
    fn warnings_text(&self) -> String {
        self.0.warnings_text()
    }
}

/// The output of kubectl.
impl WarningsText for String {
    fn warnings_text(&self) -> String {
        self.clone()
    }
}

/// Creates a [`requesting_pod`] whose claim has the name of the pod, as [`until_reviewed`] does.
pub async fn post_requesting_pod(
    pod_space: &PodSpace,
    changes: Value,
    query: &str,
) -> Result<PostResponse> {
    until_reviewed(pod_space, async |name| {
        let pod = requesting_pod(name, name, changes.clone())?;
        post(&pod_space.space, &pod, query).await
    })
    .await
}

/// Like [`post_requesting_pod`], and returns the claim that exists when the response arrives.
pub async fn post_and_get_claim(
    pod_space: &PodSpace,
) -> Result<(PostResponse, PersistentVolumeClaim)> {
    let (response, claim) = until_reviewed(pod_space, async |name| {
        let response = post(
            &pod_space.space,
            &requesting_pod(name, name, json!({}))?,
            "",
        )
        .await?;
        Ok((response, pod_space.space.claims.get_opt(name).await?))
    })
    .await?;
    let claim = claim.with_context(|| format!("the claim does not exist: {response:?}"))?;
    Ok((response, claim))
}

/// Calls `create` with new pod names until the webhook answers in time, and the API server answers
/// all requests of Volume Warden for that review in time.
pub async fn until_reviewed<T: WarningsText>(
    pod_space: &PodSpace,
    create: impl AsyncFnMut(&str) -> Result<T>,
) -> Result<T> {
    let is_complete = |created: &T| {
        !created
            .warnings_text()
            .contains("the API server did not answer")
    };
    retry(pod_space, create, is_complete).await
}

/// Calls `create` with new pod names until the webhook answers in time, even if requests of Volume
/// Warden to the API server fail.
pub async fn until_webhook_answers<T>(
    pod_space: &PodSpace,
    create: impl AsyncFnMut(&str) -> Result<T>,
) -> Result<T> {
    retry(pod_space, create, |_| true).await
}

/// Calls `create` with new pod names until the webhook did not fail open and `is_wanted` accepts
/// the result. On a busy machine the webhook may time out for some pods, and after a start of
/// Volume Warden the API server does not call the webhook yet.
async fn retry<T>(
    pod_space: &PodSpace,
    mut create: impl AsyncFnMut(&str) -> Result<T>,
    is_wanted: impl Fn(&T) -> bool,
) -> Result<T> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let cluster = &pod_space.space.cluster;
    let result = eventually("the webhook answers in time", async || {
        let name = format!("pod{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let before = failed_open_counts(cluster).await?;
        let created = create(&name).await;
        let is_answered = failed_open_counts(cluster).await? == before;
        // An error of `create` is a result as well, and is not retried.
        let is_done = is_answered && created.as_ref().map_or(true, &is_wanted);
        anyhow::Ok(Some(created).filter(|_| is_done))
    });
    result.await?
}

/// The metrics of the API server that count failed calls of the pod webhook: calls after which the
/// API server admitted the pod without the webhook.
pub async fn failed_open_counts(cluster: &Cluster) -> Result<String> {
    failed_open(cluster, "pods.pvc-provisioner").await
}
