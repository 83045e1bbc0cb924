//! The Events of trash-list.

use super::reasons::CANNOT_LIST;
use crate::{
    cluster::EventContent,
    objects::{ObjectName, trash_list::TRASH_LIST},
};

/// The Event for a user's ConfigMap that has the name of a list.
pub fn taken(name: &ObjectName) -> EventContent {
    let note = format!(
        "this ConfigMap has no label {TRASH_LIST}, so it belongs to a user and is left unchanged. \
         The namespace {} has deleted claims in the trash, and a ConfigMap of this name would list \
         them: rename yours",
        name.namespace
    );
    EventContent::warning(CANNOT_LIST, "ListTrash", note)
}
