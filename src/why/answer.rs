//! What is answered: a chain of causes from the object to the root.

use crate::causes::{Cause, Object};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

/// Why an object is as it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// What was asked about: `PersistentVolumeClaim shop/data`.
    pub object: String,
    /// What state that is in, in words: `Terminating`.
    pub state: String,
    /// Since when, where that is known.
    pub since: Option<Timestamp>,
    /// From the object to the root, which is the last.
    pub chain: Vec<Cause>,
    /// What follows from all that was read.
    pub conclusion: Conclusion,
    /// What holds it besides, and would go on doing so.
    pub also: Vec<Cause>,
    /// What could not be read, and why, each a sentence. The root may be behind it.
    pub unread: Vec<String>,
    /// How often the API server was called for it.
    pub calls: usize,
}

/// What follows from all that was read about an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "result", rename_all_fields = "camelCase")]
pub enum Conclusion {
    /// The chain says why the object is in its state.
    Explained,
    /// A rule concluded that the object is healthy. A chain then only informs.
    Healthy {
        /// Because of this, a clause: `its volume disk is Bound`.
        reason: String,
    },
    /// No rule knows a cause, and none concluded health: the cause may be something that Volume
    /// Warden does not know.
    NothingFound {
        /// What was examined and what is known of it, a clause.
        examined: String,
        /// The command that shows what others know.
        command: String,
    },
}

impl Answer {
    /// Of an object, without a cause yet.
    pub fn of(object: &Object, state: impl Into<String>) -> Self {
        Self {
            object: object.to_string(),
            state: state.into(),
            since: None,
            chain: Vec::new(),
            conclusion: Conclusion::nothing_found(object, "its own fields"),
            also: Vec::new(),
            unread: Vec::new(),
            calls: 0,
        }
    }

    /// The same, so since then.
    #[must_use]
    pub fn since(mut self, since: Option<Timestamp>) -> Self {
        self.since = since;
        self
    }

    /// The last link of the chain.
    pub fn root(&self) -> Option<&Cause> {
        self.chain.last()
    }

    /// Whether all was read that the answer rests on.
    pub fn is_certain(&self) -> bool {
        self.unread.is_empty()
    }

    /// The same, because of these, of which each is caused by the next.
    #[must_use]
    pub fn because(mut self, causes: impl IntoIterator<Item = Cause>) -> Self {
        self.chain.extend(causes);
        if !self.chain.is_empty() {
            self.conclusion = Conclusion::Explained;
        }
        self
    }

    /// The same, and this follows, whatever the chain informs of besides.
    #[must_use]
    pub fn concluding(mut self, conclusion: Conclusion) -> Self {
        self.conclusion = conclusion;
        self
    }
}

impl Conclusion {
    /// A rule concluded health, because of this.
    pub fn healthy(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Healthy { reason }
    }

    /// Nothing is known of that object, of which this was examined.
    pub fn nothing_found(object: &Object, examined: impl Into<String>) -> Self {
        Self::NothingFound {
            examined: examined.into(),
            command: object.describe(),
        }
    }
}
