//! What is answered: a chain of causes from the object to the root.

use super::{Code, Object};
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
    /// A rule concluded that the object is as it should be. A chain then only informs.
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

/// One link of the chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// Its name.
    pub code: Code,
    /// One or two sentences.
    pub sentence: String,
    /// Where it can be seen.
    pub evidence: Evidence,
    /// What to do about it.
    pub next: Next,
}

/// The place that a cause was read from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// `Pod shop/web-0`
    pub object: String,
    /// `status.phase`
    pub field: String,
    /// Since when it is so, where that is known.
    pub since: Option<Timestamp>,
}

/// The next safe step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Next {
    /// Nothing is to be done about this cause.
    Nothing {
        /// What happens by itself.
        meanwhile: String,
    },
    /// A command that destroys nothing that somebody may want, or says what it destroys.
    Run {
        /// To be pasted into a shell.
        command: String,
        /// What it is for, and when it is safe: `once the pod is not needed`.
        purpose: String,
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

impl Cause {
    /// A cause that is seen there, about which nothing is to be done.
    pub fn new(code: Code, sentence: impl Into<String>, evidence: Evidence) -> Self {
        let meanwhile = String::new();
        Self {
            code,
            sentence: sentence.into(),
            evidence,
            next: Next::Nothing { meanwhile },
        }
    }

    /// The same; this happens by itself.
    #[must_use]
    pub fn wait(mut self, meanwhile: impl Into<String>) -> Self {
        let meanwhile = meanwhile.into();
        self.next = Next::Nothing { meanwhile };
        self
    }

    /// The same; this is what to do.
    #[must_use]
    pub fn run(mut self, command: impl Into<String>, purpose: impl Into<String>) -> Self {
        self.next = Next::Run {
            command: command.into(),
            purpose: purpose.into(),
        };
        self
    }
}

impl Evidence {
    /// That field of that object.
    pub fn new(object: impl Into<String>, field: impl Into<String>) -> Self {
        Self {
            object: object.into(),
            field: field.into(),
            since: None,
        }
    }

    /// The same, so since then.
    #[must_use]
    pub fn since(mut self, since: Option<Timestamp>) -> Self {
        self.since = since;
        self
    }
}
