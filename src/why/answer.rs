//! The answer of `why`: a chain of causes from the object to the root.

use crate::causes::{Cause, Object};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

/// Why an object is in its state.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Kind and name of the object that the answer is about: `PersistentVolumeClaim shop/data`.
    pub object: String,
    /// The state of the object, in words: `Terminating`.
    pub state: String,
    /// When the object entered this state, if known. For a claim, a pod or a namespace that is not
    /// being deleted, it is the time of its creation.
    pub since: Option<Timestamp>,
    /// The causes from the object to the root, which is the last one. Each is caused by the next.
    pub chain: Vec<Cause>,
    /// What follows from all objects that were read.
    pub conclusion: Conclusion,
    /// Further causes, which are not part of the chain.
    pub also: Vec<Cause>,
    /// The objects that could not be read, each with its error, as sentences. The real root may be
    /// among these objects.
    pub unread: Vec<String>,
    /// The number of API calls that the answer needed.
    pub calls: usize,
}

/// What follows from all objects that were read for an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "result", rename_all_fields = "camelCase")]
pub enum Conclusion {
    /// The chain says why the object is in its state.
    Explained,
    /// A rule concluded that the object is healthy. The chain, if any, is then only information.
    Healthy {
        /// Why the object is healthy, as a clause: `the claim and its volume disk are bound to each
        /// other`.
        reason: String,
    },
    /// No rule found a cause, and none concluded health, or something could not be read: the cause
    /// may be something that Volume Warden does not know.
    NothingFound {
        /// What was examined, and what is known of it, as a clause.
        examined: String,
        /// The command that shows more about the object, such as its Events.
        command: String,
    },
}

impl Answer {
    /// An answer about the object without a cause yet.
    pub fn of(object: &Object, state: impl Into<String>) -> Self {
        Self {
            object: object.to_string(),
            state: state.into(),
            since: None,
            chain: Vec::new(),
            conclusion: Conclusion::nothing_found(object, "the fields of the object"),
            also: Vec::new(),
            unread: Vec::new(),
            calls: 0,
        }
    }

    /// Sets when the object entered its state.
    #[must_use]
    pub fn since(mut self, since: Option<Timestamp>) -> Self {
        self.since = since;
        self
    }

    /// The last cause of the chain.
    pub fn root(&self) -> Option<&Cause> {
        self.chain.last()
    }

    /// Whether all objects that the answer depends on were read.
    pub fn is_certain(&self) -> bool {
        self.unread.is_empty()
    }

    /// Appends causes to the chain, each of which is caused by the next. The conclusion becomes
    /// [`Conclusion::Explained`] if the chain is not empty.
    #[must_use]
    pub fn because(mut self, causes: impl IntoIterator<Item = Cause>) -> Self {
        self.chain.extend(causes);
        if !self.chain.is_empty() {
            self.conclusion = Conclusion::Explained;
        }
        self
    }

    /// Sets the conclusion, independently of the chain.
    #[must_use]
    pub fn concluding(mut self, conclusion: Conclusion) -> Self {
        self.conclusion = conclusion;
        self
    }
}

impl Conclusion {
    /// The conclusion that the object is healthy, for this reason.
    pub fn healthy(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Healthy { reason }
    }

    /// The conclusion that no cause was found, although `examined` was examined.
    pub fn nothing_found(object: &Object, examined: impl Into<String>) -> Self {
        Self::NothingFound {
            examined: examined.into(),
            command: object.describe(),
        }
    }
}
