//! Why a namespace has yet to be removed from the backend.

use super::reasons;
use strum::{IntoStaticStr, VariantArray};

/// Why a namespace could not be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
pub enum Reason {
    /// The namespace is not empty.
    NotEmpty,
    /// The namespace changes faster than it can be listed and deleted.
    Changing,
    /// The backend refuses the credentials or the permission.
    Unauthorized,
    /// The backend does not answer, or fails.
    Unavailable,
    /// The API server did not say whether the namespace exists.
    Unconfirmed,
}

impl Reason {
    /// The value in metrics, logs and reports.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The reason of the Event.
    pub fn event(self) -> &'static str {
        match self {
            Self::NotEmpty => reasons::NOT_EMPTY,
            _ => reasons::DELETE_FAILED,
        }
    }
}
