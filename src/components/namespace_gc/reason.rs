//! Why the removal of a namespace has to wait.

use super::reasons;

/// Why a namespace has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// All of them, for metrics that go back to zero.
    pub const ALL: [Self; 5] = [
        Self::NotEmpty,
        Self::Changing,
        Self::Unauthorized,
        Self::Unavailable,
        Self::Unconfirmed,
    ];

    /// For metrics, the log and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotEmpty => "NotEmpty",
            Self::Changing => "Changing",
            Self::Unauthorized => "Unauthorized",
            Self::Unavailable => "Unavailable",
            Self::Unconfirmed => "Unconfirmed",
        }
    }

    /// As users are told of it.
    pub fn event(self) -> &'static str {
        match self {
            Self::NotEmpty => reasons::NOT_EMPTY,
            _ => reasons::DELETE_FAILED,
        }
    }
}
