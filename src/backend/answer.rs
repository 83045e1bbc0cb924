//! Results of calls to a backend.

use super::Sentence;
use std::fmt;
use strum::IntoStaticStr;

/// How a call ended, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
pub enum Outcome {
    /// Listed or deleted.
    Ok,
    /// There was nothing to delete.
    NotFound,
    /// Not empty.
    InUse,
    /// Not what it was when it was listed.
    Stale,
    /// The credentials do not do.
    Unauthorized,
    /// The credentials do, the rights do not.
    Forbidden,
    /// An answer that says that it did not work, or says nothing that can be understood.
    Server,
    /// No connection, or it broke.
    Transport,
    /// No answer in time.
    Timeout,
}

impl Outcome {
    /// As in the metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What became of a namespace that was to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// It is gone, by this call.
    Deleted,
    /// It was gone before.
    NotFound,
    /// It holds something and is still there; what the backend says about it. List again before
    /// the next attempt: a backend may mistake one that is stale for one in use.
    NotEmpty(Sentence),
    /// It is not what was listed. List again.
    Stale,
}

impl Deletion {
    /// For metrics.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Deleted => Outcome::Ok,
            Self::NotFound => Outcome::NotFound,
            Self::NotEmpty(_) => Outcome::InUse,
            Self::Stale => Outcome::Stale,
        }
    }
}

/// Why there is no answer that could be worked with. The sentence is for humans and holds no
/// secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The backend refuses access.
    Unauthorized(Denial, Sentence),
    /// The backend failed.
    Unavailable(Outage, Sentence),
}

/// Why a backend refuses access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The credentials are missing or not accepted.
    Credentials,
    /// Those whose credentials these are may not do that.
    Rights,
}

/// How a backend failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// It says so, or what it says makes no sense.
    Server,
    /// It cannot be reached, or the connection broke.
    Transport,
    /// It does not answer in time.
    Timeout,
}

impl Failure {
    /// Credentials that are missing or do not do.
    pub fn credentials(why: impl AsRef<str>) -> Self {
        Self::Unauthorized(Denial::Credentials, Sentence::new(why))
    }

    /// Rights that are missing.
    pub fn rights(why: impl AsRef<str>) -> Self {
        Self::Unauthorized(Denial::Rights, Sentence::new(why))
    }

    /// An error that the backend reports, or a response that cannot be parsed.
    pub fn server(why: impl AsRef<str>) -> Self {
        Self::Unavailable(Outage::Server, Sentence::new(why))
    }

    /// No connection, or a broken one.
    pub fn transport(why: impl AsRef<str>) -> Self {
        Self::Unavailable(Outage::Transport, Sentence::new(why))
    }

    /// No answer in time.
    pub fn timeout(why: impl AsRef<str>) -> Self {
        Self::Unavailable(Outage::Timeout, Sentence::new(why))
    }

    /// For metrics.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Unauthorized(Denial::Credentials, _) => Outcome::Unauthorized,
            Self::Unauthorized(Denial::Rights, _) => Outcome::Forbidden,
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
