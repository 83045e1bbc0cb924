//! Watches.

use crate::{
    body::Body,
    json::metadata_of,
    resources::Resource,
    route::Route,
    selectors::Selectors,
    server::ApiServer,
    status::{Answer, Failure},
    store::{Entry, Kind},
};
use bytes::Bytes;
use http::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// An open watch.
pub(crate) struct Watcher {
    resource: &'static Resource,
    namespace: Option<String>,
    selectors: Selectors,
    metadata_only: bool,
    /// Whether the client requested bookmarks.
    bookmarks: bool,
    sender: UnboundedSender<Bytes>,
}

/// On average, one of this number of writes is followed by a bookmark on each watch that requested
/// bookmarks. A real API server sends one about every minute; the model has no clock.
const BOOKMARK_INTERVAL: u32 = 200;

impl Watcher {
    /// Sends a bookmark at random, after all events up to this revision.
    pub(crate) fn remind(&self, random: &mut fastrand::Rng, revision: u64) {
        if self.bookmarks && random.u32(0..BOOKMARK_INTERVAL) == 0 {
            let mut bookmark = bookmark(self.resource, revision);
            if self.metadata_only {
                bookmark["kind"] = "PartialObjectMetadata".into();
                bookmark["apiVersion"] = "meta.k8s.io/v1".into();
            }
            self.event("BOOKMARK", &bookmark);
        }
    }

    /// Sends the event of a write, if it concerns this watch. Returns whether the client still
    /// reads the watch.
    pub(crate) fn notify(&self, entry: &Entry) -> bool {
        if self.sender.is_closed() {
            return false;
        }
        if let Some(kind) = self.kind_of(entry) {
            self.send(kind, entry);
        }
        true
    }

    /// The type of the event; `None` if the write does not concern this watch. An object that no
    /// longer matches the selectors is reported as deleted.
    fn kind_of(&self, entry: &Entry) -> Option<Kind> {
        if !std::ptr::eq(entry.resource, self.resource) {
            return None;
        }
        let namespace = entry.object["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default();
        if self.namespace.as_ref().is_some_and(|own| own != namespace) {
            return None;
        }
        let before = entry
            .before
            .as_ref()
            .is_some_and(|before| self.selectors.match_object(before));
        let after = !entry.removed && self.selectors.match_object(&entry.object);
        match (before, after) {
            (false, false) => None,
            (false, true) => Some(Kind::Added),
            (true, true) => Some(Kind::Modified),
            (true, false) => Some(Kind::Deleted),
        }
    }

    fn send(&self, kind: Kind, entry: &Entry) {
        if self.metadata_only {
            self.event(kind.name(), &metadata_of(&entry.object));
            return;
        }
        // A watch whose client has ended is dropped at the next write.
        let _ = self.sender.send(entry.line(kind));
    }

    fn event(&self, kind: &str, object: &Value) {
        let line = format!("{}\n", json!({"type": kind, "object": object}));
        // A watch whose client has ended is dropped at the next write.
        let _ = self.sender.send(line.into());
    }

    fn object(&self, kind: &str, object: &Value) {
        if self.metadata_only {
            self.event(kind, &metadata_of(object))
        } else {
            self.event(kind, object)
        }
    }
}

impl ApiServer {
    pub(crate) fn watch(&self, route: &Route, metadata_only: bool) -> Answer<Response<Body>> {
        let selectors = Selectors::parse(
            route.parameter("labelSelector"),
            route.parameter("fieldSelector"),
        )?;
        let (sender, events) = unbounded_channel();
        let watcher = Watcher {
            resource: route.resource,
            namespace: route.scope().map(str::to_owned),
            selectors,
            metadata_only,
            bookmarks: route.is_set("allowWatchBookmarks"),
            sender,
        };
        let mut store = self.store();
        let since = route
            .parameter("resourceVersion")
            .parse::<u64>()
            .unwrap_or(0);
        if since > 0 && since < store.compacted {
            let message = format!("too old resource version: {since} ({})", store.compacted);
            watcher.event("ERROR", &Failure::gone(message).status());
        } else {
            if since == 0 || route.is_set("sendInitialEvents") {
                let objects = store.kind(route.resource).into_iter().flatten();
                let within = |namespace: &str| route.scope().is_none_or(|scope| scope == namespace);
                let objects = objects.filter(|(name, object)| {
                    within(&name.0) && watcher.selectors.match_object(object)
                });
                objects.for_each(|(_, object)| watcher.object("ADDED", object));
            } else {
                let first = store
                    .history
                    .partition_point(|entry| entry.revision <= since);
                for entry in &store.history[first..] {
                    watcher.notify(entry);
                }
            }
            if route.is_set("sendInitialEvents") {
                let mut end = bookmark(route.resource, store.revision);
                end["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
                watcher.event("BOOKMARK", &end);
            }
            store.watchers.push(watcher);
        }
        let mut response = Response::new(Body::Watch(events));
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert("content-type", json);
        Ok(response)
    }
}

/// The object of a bookmark.
fn bookmark(resource: &Resource, revision: u64) -> Value {
    json!({
        "kind": resource.kind, "apiVersion": resource.api_version(),
        "metadata": {"resourceVersion": revision.to_string(), "creationTimestamp": null},
    })
}
