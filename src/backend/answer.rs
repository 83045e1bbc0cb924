//! Results of calls to a storage backend.

use super::Sentence;
use std::fmt;
use strum::IntoStaticStr;

/// How a call to a storage backend ended, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
pub enum Outcome {
    /// The namespaces were listed, or the namespace was deleted.
    Ok,
    /// The namespace to delete does not exist.
    NotFound,
    /// The namespace to delete is not empty, or is still used.
    InUse,
    /// The namespace to delete was replaced or changed after it was listed, and was not deleted.
    Stale,
    /// The credentials are missing or not accepted.
    Unauthorized,
    /// The permission for the call is missing.
    Forbidden,
    /// The backend reports an error, or its state or response cannot be used.
    Server,
    /// The backend cannot be reached, for example because a TLS file is invalid, or the connection
    /// broke.
    Transport,
    /// The backend did not answer in time.
    Timeout,
}

impl Outcome {
    /// Returns the value of the metric label.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The result of deleting a namespace of a storage backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// This call deleted the namespace.
    Deleted,
    /// The namespace did not exist any more.
    NotFound,
    /// The namespace is not empty, or is still used, and was not deleted; the sentence is the
    /// reason that the backend gives. List the namespaces again before the next attempt: a backend
    /// may give this answer about a later namespace of the same name.
    NotEmpty(Sentence),
    /// The namespace was replaced or changed after it was listed, and was not deleted. List the
    /// namespaces again.
    Stale,
}

impl Deletion {
    /// Returns the outcome for the metrics.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Deleted => Outcome::Ok,
            Self::NotFound => Outcome::NotFound,
            Self::NotEmpty(_) => Outcome::InUse,
            Self::Stale => Outcome::Stale,
        }
    }
}

/// Why a call to a storage backend has no usable result. The sentence is for humans and contains no
/// secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Access is denied: the credentials or the permission are missing or wrong.
    Unauthorized(Denial, Sentence),
    /// The call failed for any other reason, such as a backend that is down or too slow. A later
    /// call may succeed.
    Unavailable(Outage, Sentence),
}

/// Why a backend denies access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The credentials are missing or not accepted.
    Credentials,
    /// The permission for the call is missing.
    Permissions,
}

/// How a backend failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// The backend reports an error, or its state or response cannot be used.
    Server,
    /// The backend cannot be reached, for example because a TLS file is invalid, or the connection
    /// broke.
    Transport,
    /// The backend did not answer in time.
    Timeout,
}

impl Failure {
    /// Creates a failure: the credentials are missing or not accepted.
    pub fn credentials(why: impl AsRef<str>) -> Self {
        Self::Unauthorized(Denial::Credentials, Sentence::new(why))
    }

    /// Creates a failure: the permission for the call is missing.
    pub fn permissions(why: impl AsRef<str>) -> Self {
        Self::Unauthorized(Denial::Permissions, Sentence::new(why))
    }

    /// Creates a failure: the backend reports an error, or its state or response cannot be used.
    pub fn server(why: impl AsRef<str>) -> Self {
        Self::Unavailable(Outage::Server, Sentence::new(why))
    }

    /// Creates a failure: the backend cannot be reached, for example because a TLS file is invalid,
    /// or the connection broke.
    pub fn transport(why: impl AsRef<str>) -> Self {
        Self::Unavailable(Outage::Transport, Sentence::new(why))
    }

    /// Creates a failure: the backend did not answer in time.
    pub fn timeout(why: impl AsRef<str>) -> Self {
        Self::Unavailable(Outage::Timeout, Sentence::new(why))
    }

    /// Returns the outcome for the metrics.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Unauthorized(Denial::Credentials, _) => Outcome::Unauthorized,
            Self::Unauthorized(Denial::Permissions, _) => Outcome::Forbidden,
            Self::Unavailable(Outage::Server, _) => Outcome::Server,
            Self::Unavailable(Outage::Transport, _) => Outcome::Transport,
            Self::Unavailable(Outage::Timeout, _) => Outcome::Timeout,
        }
    }

    /// The cause of the failure, for logs and Events.
    pub fn why(&self) -> &Sentence {
        match self {
            Self::Unauthorized(_, why) | Self::Unavailable(_, why) => why,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why().fmt(f)
    }
}

impl std::error::Error for Failure {}
