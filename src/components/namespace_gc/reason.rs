//! Why the removal of a namespace has to wait.

use super::reasons;
use strum::{IntoStaticStr, VariantArray};

/// Why a namespace has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
pub enum Reason {
    /// Something is in it.
    NotEmpty,
    /// It changes faster than it can be listed and deleted.
    Changing,
    /// The backend does not let us.
    Unauthorized,
    /// The backend does not do its work.
    Unavailable,
    /// The API server did not say whether the namespace exists.
    Unconfirmed,
}

impl Reason {
    /// For metrics, the log and reports.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// As users are told of it.
    pub fn event(self) -> &'static str {
        match self {
            Self::NotEmpty => reasons::NOT_EMPTY,
            _ => reasons::DELETE_FAILED,
        }
    }
}
