//! Whether the record of seen namespaces still permits a retry.
//!
//! A name leaves the record when an administrator removes it, because another cluster uses the
//! namespace, when the namespace is removed from the backend, or when a collection finds that
//! neither Kubernetes nor the backend has the namespace.
//! What the backend has under that name afterwards may be of another user of the storage.

use super::{NAME, Seen, waiting::Waiting};
use crate::objects::ObjectName;

/// A further attempt to remove a namespace, after an earlier one failed.
pub struct Retry<'a> {
    /// The record of the names that this cluster once had; none unless the scope is `Scope::Seen`.
    pub seen: Option<&'a Seen>,
    /// The namespaces whose removal failed, and whether the record had their names.
    pub waiting: &'a Waiting,
}

/// What the record says about a retry.
pub enum RecordCheck {
    /// The namespace may be deleted.
    Permits,
    /// The record has lost the name, so the namespace is kept.
    Lost,
    /// The record could not be read, as the sentence says, so the namespace is not deleted now.
    Unreadable(String),
}

impl Retry<'_> {
    /// Reads what the record says about the namespace.
    ///
    /// A name that the record never had is permitted: the watch reported the deletion of its
    /// namespace, so this cluster had it, but the record may be full.
    pub async fn record(&self, name: &ObjectName) -> RecordCheck {
        let Some(seen) = self.seen else {
            return RecordCheck::Permits;
        };
        let names = match seen.read().await {
            Ok(names) => names,
            Err(error) => {
                let why = format!(
                    "the names of the namespaces that this cluster once had could not be read: \
                     {error}"
                );
                return RecordCheck::Unreadable(why);
            }
        };
        if names.contains(&*name.name) {
            self.waiting.mark_recorded(name);
        } else if self.waiting.needs_record(name) {
            tracing::info!(
                component = NAME,
                namespace = &*name.name,
                "the ConfigMap volume-warden-seen-namespaces no longer has the name of the namespace, \
                 so its deletion from the storage backend is not retried"
            );
            return RecordCheck::Lost;
        }
        RecordCheck::Permits
    }
}
