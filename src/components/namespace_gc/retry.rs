//! Whether the record of seen namespaces still permits a retry.
//!
//! A name leaves the record when an administrator removes it, because another cluster uses the
//! namespace, or when a collection finds that neither Kubernetes nor the backend has the namespace.
//! What the backend has under that name afterwards may be of another user of the storage.

use super::{NAME, Reason, Removal, Seen, waiting::Waiting};
use crate::objects::ObjectName;

/// A further attempt to remove a namespace, after an earlier one failed.
pub struct Retry<'a> {
    /// The record of the names that this cluster once had; none unless the scope is `Scope::Seen`.
    pub seen: Option<&'a Seen>,
    /// The namespaces whose removal failed, and whether the record had their names.
    pub waiting: &'a Waiting,
}

impl Retry<'_> {
    /// Reads the record. Returns the result of a retry that must not delete the namespace; none if
    /// it may.
    ///
    /// A name that the record never had is not refused: the watch reported the deletion of its
    /// namespace, so this cluster had it, but the record may be full.
    pub async fn refusal(&self, name: &ObjectName) -> Option<Removal> {
        let names = match self.seen?.read().await {
            Ok(names) => names,
            Err(error) => {
                let why = format!(
                    "the names of the namespaces that this cluster once had could not be read: \
                     {error}"
                );
                return Some(Removal::waits(Reason::Unconfirmed, why));
            }
        };
        if names.contains(&*name.name) {
            self.waiting.mark_recorded(name);
            return None;
        }
        if !self.waiting.needs_record(name) {
            return None;
        }
        tracing::info!(
            component = NAME,
            namespace = &*name.name,
            "the ConfigMap volume-warden-seen-namespaces no longer has the name of the namespace, \
             so its deletion from the storage backend is not retried"
        );
        Some(Removal::Kept)
    }
}
