//! `trash-list`: a ConfigMap shows users which claims of their namespace can be restored.
//!
//! **Rule.** Each namespace with deleted claims in the trash has a ConfigMap `volume-warden-trash`
//! that lists them, up to a limit, because users of a namespace may not list volumes. It is deleted
//! when the namespace has no such claims any more, and when the namespace opts out.
//!
//! It lists only claims of the namespace that exists now, by its uid: users of a namespace that was
//! deleted and recreated do not learn which claims the earlier one had. A ConfigMap of that name
//! without the label `volume-warden.dev/trash-list` belongs to a user and is left unchanged.

mod assemble;
mod caches;
mod notices;
mod reconcile;
mod rule;
#[cfg(test)]
mod tests;

pub use assemble::TrashListing;
pub use reconcile::delete;

/// Name of the component trash-list in flags, logs and metrics.
pub const NAME: &str = "trash-list";

/// Reasons of actions and of no action: Event reasons, log fields and metric labels.
pub mod reasons {
    use crate::reason::reasons;

    reasons! {
        /// A ConfigMap of a user has the name of the list of deleted claims, so `trash-list` does
        /// not write the list.
        CANNOT_LIST: Warning "ConfigMap" = "ErrTrashList";
        /// The API server refused to change the list of deleted claims.
        FAILED_LIST_TRASH: Warning "ConfigMap" = "FailedListTrash";
        /// The list of the deleted claims of a namespace was created or changed.
        TRASH_LISTED = "TrashListed";
        /// The list was deleted, by `trash-list` or `drain`: it would be empty, the namespace has
        /// opted out, or the list has to be created again.
        TRASH_UNLISTED = "TrashUnlisted";
    }
}
