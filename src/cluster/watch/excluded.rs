//! The namespaces that have opted out of Volume Warden.

use super::{feed::Feed, feeds::Feeds};
use crate::objects::{Kind, Namespace, ObjectName};
use std::sync::Arc;
use tokio::sync::Notify;

/// Which namespaces have opted out by the label `volume-warden.dev/exclude: "true"`, as the watch
/// of namespaces shows them.
///
/// The watch may be late. Until its first list is complete, reconcilers do not run, and webhooks
/// treat each namespace as included. Most webhooks for claims and pods also have a
/// `namespaceSelector` that excludes these namespaces in any case; those that remove markers from
/// claims apply in every namespace.
#[derive(Clone, Default)]
pub struct Excluded {
    namespaces: Option<Arc<Feed<Namespace>>>,
}

impl Excluded {
    /// Finds namespaces that have opted out by their label. With `only`, the namespace of
    /// `--namespace`, none counts as excluded, whatever its labels are: Volume Warden may have no
    /// permission to read namespaces then.
    pub fn by_label(feeds: &Feeds, only: Option<&str>) -> Self {
        let namespaces = only.is_none().then(|| feeds.namespaces.clone());
        Self { namespaces }
    }

    /// Returns whether the namespace has opted out.
    pub fn contains(&self, namespace: &str) -> bool {
        let name = || ObjectName::cluster_scoped(namespace);
        let found = |feed: &Arc<Feed<Namespace>>| feed.read().get(&name());
        let known = self.namespaces.as_ref().filter(|_| !namespace.is_empty());
        known
            .and_then(found)
            .is_some_and(|namespace| namespace.excluded)
    }

    /// Returns a notification that is sent after a namespace has opted out, or in again, or one
    /// that had opted out is deleted.
    pub fn changes(&self) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        if let Some(namespaces) = &self.namespaces {
            let notify = notify.clone();
            namespaces.listen(move |change| {
                // A namespace that is created has no objects. After the deletion of one, the watch
                // of another kind may already show objects of the next one of its name.
                let is_excluded = change.new.is_some_and(|new| new.excluded);
                if change.old.is_some_and(|old| old.excluded != is_excluded) {
                    notify.notify_one();
                }
            });
        }
        notify
    }

    /// Returns the kinds whose watches find excluded namespaces. Without these watches no namespace
    /// counts as excluded.
    pub fn watches(&self) -> &'static [Kind] {
        match self.namespaces {
            Some(_) => &[Kind::Namespace],
            None => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;
    use futures::FutureExt as _;
    use serde_json::json;

    #[test]
    fn only_the_value_true_excludes_a_namespace() {
        let feeds = Feeds::new(&Arc::new(Metrics::new()));
        let excluded = Excluded::by_label(&feeds, None);
        assert!(!excluded.contains("out"), "nothing is listed yet");
        let namespace = |name, labels| {
            let wire = json!({"metadata": {"name": name, "uid": name, "labels": labels}});
            serde_json::from_value(wire).expect("a namespace")
        };
        let label = "volume-warden.dev/exclude";
        feeds.namespaces.list(vec![
            namespace("out", json!({label: "true"})),
            namespace("in", json!({label: "false"})),
            namespace("plain", json!({})),
        ]);
        for (name, expected) in [("out", true), ("in", false), ("plain", false), ("", false)] {
            assert_eq!(excluded.contains(name), expected, "{name}");
        }
        let changes = excluded.changes();
        let changed = || changes.notified().now_or_never().is_some();
        feeds.namespaces.deliver(namespace("in", json!({})), true);
        assert!(!changed(), "it had not opted out");
        feeds.namespaces.deliver(namespace("out", json!({})), true);
        assert!(!excluded.contains("out"), "the label was removed");
        assert!(changed());
        feeds
            .namespaces
            .deliver(namespace("out", json!({label: "true"})), true);
        assert!(changed(), "it opts out again");
        feeds
            .namespaces
            .deliver(namespace("plain", json!({})), false);
        assert!(!changed(), "it had not opted out");
        feeds
            .namespaces
            .deliver(namespace("out", json!({label: "true"})), false);
        assert!(changed(), "the next namespace of its name may not opt out");
    }

    #[test]
    fn an_only_namespace_is_never_excluded() {
        let feeds = Feeds::new(&Arc::new(Metrics::new()));
        assert_eq!(Excluded::by_label(&feeds, Some("a")).watches(), []);
        assert_eq!(
            Excluded::by_label(&feeds, None).watches(),
            [Kind::Namespace]
        );
    }
}
