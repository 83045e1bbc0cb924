//! A fixture: pv-releaser with a simulated API server.

use super::super::*;
use crate::{
    awaited::Awaited,
    cluster::{
        Apply, Elector, EventDeduplicator, Feed, Feeds, LiveGet, Reconcile, SharedList, WorkQueue,
        test_server::failure,
    },
    objects::{
        ObjectName, Tracked,
        managed_by::{PROVISIONER_LABEL, RELEASER_LABEL},
    },
    telemetry::Metrics,
};
use http_body_util::BodyExt;
use k8s_openapi::jiff::{Timestamp, fmt::rfc2822};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::time::Instant;

/// The method, the resource and the body of a call to the API server.
type Call = (String, Value);

/// State and recorded calls of the API server.
#[derive(Default)]
pub(super) struct Server {
    calls: Mutex<Vec<Call>>,
    /// Status codes for the next patches of volumes; all later patches get 200.
    pub(super) answers: Mutex<VecDeque<(u16, &'static str)>>,
    /// The uid of the namespace `ns`, which is being deleted if ` terminating` follows; none if it
    /// does not exist.
    pub(super) namespace: Mutex<Option<&'static str>>,
    /// The claim that exists.
    pub(super) claim: Mutex<Option<Value>>,
    /// Names of volumes that are attached.
    pub(super) attached: Mutex<Vec<&'static str>>,
    /// The clock of the API server, in seconds since 1970; none if it cannot be read.
    pub(super) now: Mutex<Option<i64>>,
}

impl Server {
    async fn answer(self: Arc<Self>, request: http::Request<Body>) -> http::Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = head.uri.path();
        let resources = [
            "events",
            "volumeattachments",
            "persistentvolumes",
            "persistentvolumeclaims",
            "namespaces",
        ];
        let resource = resources
            .into_iter()
            .find(|resource| path.contains(resource))
            .unwrap_or(path);
        let call = format!("{} {resource}", head.method);
        self.calls.lock().push((call, sent.clone()));
        let (code, answer) = match resource {
            "volumeattachments" => (200, self.attachments()),
            "persistentvolumes" => self.patched(),
            "persistentvolumeclaims" => found(self.claim.lock().clone()),
            "namespaces" => {
                let uid = *self.namespace.lock();
                found(uid.map(|uid| {
                    let uid = uid.strip_suffix(" terminating").ok_or(uid);
                    let deleted = uid.is_ok().then_some("2026-01-01T00:00:00Z");
                    let uid = uid.unwrap_or_else(|uid| uid);
                    json!({"metadata": {"name": "ns", "uid": uid, "deletionTimestamp": deleted}})
                }))
            }
            _ => (200, sent),
        };
        let body = Body::from(answer.to_string().into_bytes());
        let response = http::Response::builder().status(code);
        let response = match self.date() {
            Some(date) => response.header(http::header::DATE, date),
            None => response,
        };
        response.body(body).expect("a response")
    }

    fn date(&self) -> Option<String> {
        let now = (*self.now.lock())?;
        let now = Timestamp::from_second(now).expect("a time");
        let printer = rfc2822::DateTimePrinter::new();
        Some(printer.timestamp_to_rfc9110_string(&now).expect("a date"))
    }

    fn attachments(&self) -> Value {
        let attached = self.attached.lock();
        let items: Vec<_> = attached.iter().map(|volume| attachment(volume)).collect();
        json!({"kind": "VolumeAttachmentList", "apiVersion": "storage.k8s.io/v1", "metadata": {}, "items": items})
    }

    fn patched(&self) -> (u16, Value) {
        match self.answers.lock().pop_front() {
            Some((code, message)) => {
                let reason = if code == 404 { "NotFound" } else { "Reason" };
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message,
                    "reason": reason, "details": {}});
                (code, status)
            }
            None => {
                let answer = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {}});
                (200, answer)
            }
        }
    }

    /// Bodies of calls of this kind.
    pub(super) fn sent(&self, call: &str) -> Vec<Value> {
        let calls = self.calls.lock();
        let sent = calls.iter().filter(|(name, _)| name == call);
        sent.map(|(_, body)| body.clone()).collect()
    }

    /// Reason and note of each event.
    pub(super) fn events(&self) -> Vec<(String, String)> {
        let text =
            |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let events = self.sent("POST events").into_iter();
        events
            .map(|event| (text(&event, "reason"), text(&event, "note")))
            .collect()
    }

    pub(super) fn reasons(&self) -> Vec<String> {
        self.events()
            .into_iter()
            .map(|(reason, _)| reason)
            .collect()
    }
}

fn found(object: Option<Value>) -> (u16, Value) {
    object.map_or(failure(404, "NotFound"), |object| (200, object))
}

pub(super) fn attachment(volume: &str) -> Value {
    json!({"metadata": {"name": format!("csi-{volume}")}, "spec": {"nodeName": "n7", "source": {"persistentVolumeName": volume}}})
}

pub(super) fn volume(version: &str, changes: Value) -> Value {
    let mut wire = json!({
        "metadata": {"name": "pv", "uid": "pv-uid", "resourceVersion": version},
        "spec": {"claimRef": {"namespace": "ns", "name": "data", "uid": "1"}, "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "fast"},
        "status": {"phase": "Released"},
    });
    json_patch::merge(&mut wire, &changes);
    wire
}

pub(super) fn labelled() -> Value {
    json!({"metadata": {"labels": {RELEASER_LABEL: Options::default().id.as_str()}}})
}

pub(super) fn claim(uid: &str, labels: Value) -> Value {
    json!({"metadata": {"namespace": "ns", "name": "data", "uid": uid, "labels": labels}})
}

pub(super) fn claimed() -> Value {
    json!({PROVISIONER_LABEL: Options::default().id.as_str()})
}

/// A pv-releaser that leads, with a simulated API server.
pub(super) struct Scene {
    pub(super) server: Arc<Server>,
    pub(super) releaser: PvReleaserReconciler,
    queue: Arc<WorkQueue<ObjectName>>,
    pub(super) metrics: Arc<Metrics>,
    _lead: Arc<Awaited<Option<Instant>>>,
}

impl Scene {
    pub(super) fn new(options: Options) -> Self {
        Self::within(None, options)
    }

    pub(super) fn within(namespace: Option<&str>, options: Options) -> Self {
        let (server, metrics) = (Arc::new(Server::default()), Arc::new(Metrics::new()));
        let service = server.clone();
        let service = tower::service_fn(move |request| {
            let server = service.clone();
            async move { Ok::<_, std::io::Error>(server.answer(request).await) }
        });
        let client = Client::new(service, "default");
        let (lead, leadership) = Elector::for_test();
        lead.replace(Some(Instant::now() + Duration::from_secs(86_400)));
        let feeds = Feeds {
            volumes: Feed::filled(vec![]),
            ..Feeds::new(&metrics)
        };
        let caches = Caches::new(&feeds, namespace, options);
        let identity = Identity {
            namespaces: LiveGet::new(metrics.clone(), &client),
            claims: LiveGet::new(metrics.clone(), &client),
        };
        let live_attachments = SharedList::new(metrics.clone(), &client);
        *server.now.lock() = Some(0);
        let apply = Apply::new(client.clone(), leadership, 1, false, metrics.clone());
        let apply = Arc::new(apply);
        let releaser = PvReleaserReconciler {
            caches: caches.clone(),
            live_attachments,
            reservations: Reservations {
                caches,
                identity,
                apply: apply.clone(),
                client,
                exempt: Arc::new(["kube-system".to_owned()]),
                reserved: Arc::default(),
            },
            apply,
            events: Arc::new(EventDeduplicator::default()),
        };
        let queue = Arc::new(WorkQueue::default());
        queue.open();
        releaser.listen(&queue);
        releaser.register_metrics(&metrics);
        Self {
            server,
            releaser,
            queue,
            metrics,
            _lead: lead,
        }
    }

    pub(super) fn deliver<T: Tracked>(&self, feed: &Arc<Feed<T>>, wire: Value) {
        feed.deliver(serde_json::from_value(wire).expect("readable"), true);
    }

    pub(super) fn lose<T: Tracked>(&self, feed: &Arc<Feed<T>>, wire: Value) {
        feed.deliver(serde_json::from_value(wire).expect("readable"), false);
    }

    pub(super) fn watch_volume(&self, version: &str, changes: Value) {
        self.deliver(&self.releaser.caches.volumes, volume(version, changes));
    }

    pub(super) fn watch_no_volume(&self, version: &str) {
        self.lose(&self.releaser.caches.volumes, volume(version, json!({})));
    }

    /// Whether the volume was enqueued since the last call.
    pub(super) async fn woken(&self) -> bool {
        let woken = !self.queue.is_empty();
        while !self.queue.is_empty() {
            let name = self.queue.take().await;
            self.queue.done(&name);
        }
        woken
    }

    /// Reconciles the volume and waits for its Events, for less than a minute, because after a
    /// minute the written volume would be evaluated again. Returns whether the volume is settled.
    pub(super) async fn reconcile(&self) -> bool {
        let outcome = self
            .releaser
            .reconcile(&ObjectName::cluster_scoped("pv"))
            .await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        outcome.is_ok()
    }
}
