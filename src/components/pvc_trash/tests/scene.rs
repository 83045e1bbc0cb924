//! A fixture: pvc-trash as the leader, with a simulated API server.

use super::super::{
    caches::Caches, confirm::Live, copies::Copies, purge_limit::PurgeLimit,
    reconcile::PvcTrashReconciler, undelete::VolumeRestorer,
};
use crate::{
    awaited::Awaited,
    clock::Clock,
    cluster::{Apply, Elector, Feed, Feeds, Reconcile, Requeue, test_server::failure},
    objects::ObjectName,
    telemetry::Metrics,
};
use http_body_util::BodyExt;
use k8s_openapi::jiff::{Timestamp, fmt::rfc2822};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// What the API server answers, and the patches that it got.
#[derive(Default)]
pub(super) struct Server {
    /// The claims that exist.
    pub(super) claims: Vec<Value>,
    /// Claims that are created during the test.
    pub(super) created: Mutex<Vec<Value>>,
    /// The uid of the namespace `ns`, with ` terminating` behind it if the namespace is being
    /// deleted; none if it does not exist.
    pub(super) namespace: Option<&'static str>,
    /// Names of volumes that are attached; none if VolumeAttachments cannot be listed.
    pub(super) attached: Option<Vec<&'static str>>,
    /// Other volumes than `pv`.
    pub(super) others: Vec<Value>,
    /// Requests whose path contains this text are answered with an error.
    pub(super) unreadable: Option<&'static str>,
    /// Whether patches and creations are refused, as by a policy.
    pub(super) refuses: bool,
    /// Requests whose path ends with this text take this long.
    pub(super) slow: Option<(&'static str, Duration)>,
    /// After this write, a user deletes the claims.
    pub(super) interrupts: Option<&'static str>,
    /// The time that the API server reports.
    pub(super) time: Timestamp,
    /// The patches of volumes and claims, and the Events.
    pub(super) patches: Mutex<Vec<(String, Value)>>,
    /// The volume `pv`, null if it does not exist, and its copy if there is one.
    pub(super) stored: Mutex<(Value, Option<Value>)>,
    /// The methods of the writes, in their order, with the last part of each path. Dry runs of
    /// patches are marked.
    pub(super) writes: Mutex<Vec<String>>,
}

impl Server {
    fn answer(&self, method: &http::Method, uri: &http::Uri, sent: Value) -> (u16, Value) {
        let path = uri.path();
        let dry_run = uri.query().unwrap_or_default().contains("dryRun=All");
        let found =
            |object: Option<Value>| object.map_or(failure(404, "NotFound"), |object| (200, object));
        let named = |claim: &&Value| {
            let name = claim["metadata"]["name"].as_str().unwrap_or_default();
            path.ends_with(&format!("/persistentvolumeclaims/{name}"))
        };
        if method != http::Method::GET && !path.ends_with("/events") {
            let last = last_part(path);
            let mut writes = self.writes.lock();
            let dry_run = if dry_run { " dryRun" } else { "" };
            writes.push(format!("{method} {last}{dry_run}"));
        }
        let mut stored = self.stored.lock();
        match path {
            _ if method == http::Method::POST && !path.ends_with("/events") && self.refuses => {
                failure(403, "Forbidden")
            }
            _ if path.contains("/configmaps") && method == http::Method::POST => {
                stored.1 = Some(sent.clone());
                (201, sent)
            }
            _ if path.contains("/configmaps") && method == http::Method::DELETE => {
                found(stored.1.take())
            }
            _ if path.contains("/configmaps") && method == http::Method::GET => {
                if self.unreadable.is_some_and(|part| path.contains(part)) {
                    unavailable()
                } else {
                    found(stored.1.clone())
                }
            }
            _ if method == http::Method::GET
                && self.unreadable.is_some_and(|part| path.contains(part)) =>
            {
                unavailable()
            }
            _ if path.ends_with("/persistentvolumes/pv")
                && (method == http::Method::GET || stored.0.is_null()) =>
            {
                found(present(&stored.0))
            }
            _ if method == http::Method::PATCH && self.refuses => failure(403, "Forbidden"),
            _ if method == http::Method::PATCH => {
                if !dry_run {
                    let mut patches = self.patches.lock();
                    if path.ends_with("/persistentvolumes/pv") {
                        patch(&mut stored.0, &sent);
                    }
                    patches.push((path.to_owned(), sent));
                }
                let written = json!({"kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1", "metadata": {}});
                (200, written)
            }
            _ if path.ends_with("/events") => {
                let mut patches = self.patches.lock();
                patches.push((path.to_owned(), sent.clone()));
                (201, sent)
            }
            _ if self.unreadable.is_some_and(|part| path.contains(part)) => unavailable(),
            _ if path.ends_with("/volumeattachments") => self.attachments(),
            _ if path.ends_with("/persistentvolumes") => {
                let mut items = self.others.clone();
                items.extend(present(&stored.0));
                let list = json!({"kind": "PersistentVolumeList", "apiVersion": "v1",
                    "metadata": {}, "items": items});
                (200, list)
            }
            _ if path.contains("/persistentvolumes/") => {
                let named = |volume: &&Value| volume["metadata"]["name"] == *last_part(path);
                found(self.others.iter().find(named).cloned())
            }
            _ if path.ends_with("/persistentvolumeclaims") => {
                let created = self.created.lock();
                let items: Vec<_> = self.claims.iter().chain(&*created).collect();
                let list = json!({"kind": "PersistentVolumeClaimList", "apiVersion": "v1",
                    "metadata": {}, "items": items});
                (200, list)
            }
            _ if path.contains("/persistentvolumeclaims/") => {
                let claim = self.claims.iter().find(named).cloned();
                found(claim.map(|claim| self.as_now(claim)))
            }
            "/api/v1/namespaces/ns" => found(self.namespace.map(namespace)),
            _ => (200, sent),
        }
    }

    fn as_now(&self, mut claim: Value) -> Value {
        let writes = self.writes.lock();
        let interrupts = |write: &String| self.interrupts.is_some_and(|after| write == after);
        if writes.iter().any(interrupts) {
            claim["metadata"]["deletionTimestamp"] = self.time.to_string().into();
        }
        claim
    }

    fn attachments(&self) -> (u16, Value) {
        let Some(attached) = &self.attached else {
            return unavailable();
        };
        let items: Vec<_> = attached
            .iter()
            .map(|volume| {
                json!({"metadata": {"name": format!("csi-{volume}")},
                    "spec": {"source": {"persistentVolumeName": volume}}})
            })
            .collect();
        (
            200,
            json!({"kind": "VolumeAttachmentList", "apiVersion": "storage.k8s.io/v1",
                "metadata": {}, "items": items}),
        )
    }
}

fn patch(object: &mut Value, operations: &Value) {
    let operations: json_patch::Patch =
        serde_json::from_value(operations.clone()).expect("a JSON patch");
    json_patch::patch(object, &operations).expect("it applies");
}

fn present(object: &Value) -> Option<Value> {
    Some(object.clone()).filter(|object| !object.is_null())
}

/// The namespace with this uid, which is being deleted if `terminating` follows the uid.
fn namespace(uid: &str) -> Value {
    let (uid, terminating) = match uid.strip_suffix(" terminating") {
        Some(uid) => (uid, json!("2026-01-01T00:00:00Z")),
        None => (uid, Value::Null),
    };
    json!({"metadata": {"name": "ns", "uid": uid, "deletionTimestamp": terminating}})
}

fn unavailable() -> (u16, Value) {
    failure(503, "ServiceUnavailable")
}

/// The reconciler and webhooks of pvc-trash on a replica that leads.
pub(super) struct Scene {
    pub(super) server: Arc<Server>,
    pub(super) reconciler: PvcTrashReconciler,
    pub(super) metrics: Arc<Metrics>,
    pub(super) feeds: Feeds,
    _lead: Arc<Awaited<Option<Instant>>>,
}

impl Scene {
    /// Creates a replica whose clock shows `now`, and whose watches have delivered this volume and
    /// these claims.
    pub(super) fn new(server: Server, now: Timestamp, volume: Value, claims: &[Value]) -> Self {
        Self::limited(server, now, volume, claims, u64::MAX)
    }

    /// As [`Self::new`], where the trash of a namespace is full at `max_bytes`.
    pub(super) fn limited(
        server: Server,
        now: Timestamp,
        volume: Value,
        claims: &[Value],
        max_bytes: u64,
    ) -> Self {
        let (server, metrics) = (Arc::new(server), Arc::new(Metrics::new()));
        let service = server.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let server = service.clone();
            async move { Ok::<_, std::io::Error>(answer(&server, request).await) }
        });
        let client = Client::new(service, "default");
        let (lead, leadership) = Elector::for_test();
        lead.replace(Some(Instant::now() + Duration::from_secs(86_400)));
        let namespace = json!({"metadata": {"name": "ns", "uid": "n"}});
        let feeds = Feeds {
            volumes: Feed::filled(vec![]),
            claims: Feed::filled(vec![]),
            namespaces: Feed::filled(vec![
                serde_json::from_value(namespace).expect("a namespace"),
            ]),
            ..Feeds::new(&metrics)
        };
        let caches = Caches::new(&feeds, None, max_bytes);
        for claim in claims {
            let claim = serde_json::from_value(claim.clone()).expect("a claim");
            caches.claims.deliver(claim, true);
        }
        server.stored.lock().0 = volume.clone();
        let volume = serde_json::from_value(volume).expect("a volume");
        caches.volumes.deliver(volume, true);
        let live = Live::new(&metrics, &client);
        let apply = Apply::new(client.clone(), leadership, 1, false, metrics.clone());
        let apply = Arc::new(apply);
        let seconds = now.as_second();
        let clock = Clock::new(move || {
            time::OffsetDateTime::from_unix_timestamp(seconds).expect("in range")
        });
        let reconciler = PvcTrashReconciler {
            undelete: VolumeRestorer {
                caches: caches.clone(),
                live: live.clone(),
                apply: apply.clone(),
                clock: clock.clone(),
                waiting: Mutex::default(),
                refused: Default::default(),
            },
            copies: Copies::new(&feeds, &client, &apply, "volume-warden", &metrics),
            caches,
            live,
            apply,
            clock,
            purges: PurgeLimit::new(1),
            events: Arc::default(),
            classes: Arc::default(),
        };
        Self {
            server,
            reconciler,
            metrics,
            feeds,
            _lead: lead,
        }
    }

    /// Reconciles the volume `pv`. Returns when it is reconciled again, or why it failed.
    pub(super) async fn reconcile(&self) -> Result<Requeue, String> {
        let outcome = self
            .reconciler
            .reconcile(&ObjectName::cluster_scoped("pv"))
            .await;
        outcome.map_err(|error| error.to_string())
    }

    /// The notes of the Events, some of which are published in the background.
    pub(super) async fn notes(&self) -> Vec<String> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let patches = self.server.patches.lock();
        let events = patches
            .iter()
            .filter(|(target, _)| target.contains("/events"));
        let note = |event: &Value| event["note"].as_str().unwrap_or_default().to_owned();
        events.map(|(_, event)| note(event)).collect()
    }

    /// The value that a patch of the volume gives to the field at this path; none without such a
    /// patch.
    pub(super) fn patched(&self, path: &str) -> Option<Value> {
        let patches = self.server.patches.lock();
        let volumes = patches
            .iter()
            .filter(|(target, _)| target.ends_with("/persistentvolumes/pv"));
        let operations = volumes.flat_map(|(_, patch)| patch.as_array().into_iter().flatten());
        let mut written = operations.filter(|each| each["op"] != "test" && each["path"] == path);
        written.next().map(|each| each["value"].clone())
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

async fn answer(server: &Server, request: http::Request<Body>) -> http::Response<Body> {
    let (head, body) = request.into_parts();
    if let Some((end, duration)) = server.slow
        && head.uri.path().ends_with(end)
    {
        tokio::time::sleep(duration).await;
    }
    let body = body.collect().await.expect("a body").to_bytes();
    let sent = serde_json::from_slice(&body).unwrap_or_default();
    let (code, answer) = server.answer(&head.method, &head.uri, sent);
    let date = rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&server.time);
    let response = http::Response::builder()
        .status(code)
        .header(http::header::DATE, date.expect("a date"))
        .body(Body::from(answer.to_string().into_bytes()));
    response.expect("a response")
}
