//! Why a namespace could not be removed from the backend yet.

use super::reasons;
use strum::{IntoStaticStr, VariantArray};

/// Why a namespace could not be removed from the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
pub enum Reason {
    /// The namespace in the backend is not empty, so it is kept until it is empty.
    NotEmpty,
    /// The namespace changed in the backend between the list and the deletion.
    Changing,
    /// The backend refuses the credentials or the permission.
    Unauthorized,
    /// The backend does not answer, or fails.
    Unavailable,
    /// A live read from the API server failed: that of the namespace, which may still exist, or
    /// that of the record, which may have lost its name.
    Unconfirmed,
}

impl Reason {
    /// The name of the reason in metrics, logs and reports.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The `reason` field of the Event that reports it.
    pub fn event(self) -> &'static str {
        match self {
            Self::NotEmpty => reasons::NOT_EMPTY,
            _ => reasons::DELETE_FAILED,
        }
    }
}
