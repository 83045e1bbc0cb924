//! A cause, with the field that shows it and the next safe step.

use super::Code;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

/// One reason why an object is in its state.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// The name that the JSON, Events and metrics share.
    pub code: Code,
    /// What happened and why, in one or two sentences.
    pub sentence: String,
    /// The field that shows it.
    pub evidence: Evidence,
    /// What the reader can do.
    pub next: Next,
}

/// The field of an object that shows a cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// Kind and name: `Pod shop/web-0`.
    pub object: String,
    /// The path of the field: `status.phase`.
    pub field: String,
    /// When the field took this value, if known.
    pub since: Option<Timestamp>,
}

/// The next safe step of the reader.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Next {
    /// The reader has nothing to do.
    Nothing {
        /// What happens without the reader.
        meanwhile: String,
    },
    /// A command that either destroys nothing or says what it destroys.
    Run {
        /// A line for a shell.
        command: String,
        /// What it does, and when it is safe: `once the pod is not needed`.
        purpose: String,
    },
}

impl Cause {
    /// A cause about which the reader can do nothing, until [`Self::wait`] or [`Self::run`] says more.
    pub fn new(code: Code, sentence: impl Into<String>, evidence: Evidence) -> Self {
        let meanwhile = String::new();
        Self {
            code,
            sentence: sentence.into(),
            evidence,
            next: Next::Nothing { meanwhile },
        }
    }

    /// Says what happens without the reader.
    #[must_use]
    pub fn wait(mut self, meanwhile: impl Into<String>) -> Self {
        let meanwhile = meanwhile.into();
        self.next = Next::Nothing { meanwhile };
        self
    }

    /// Says what the reader can do.
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
    /// Names a field of an object.
    pub fn new(object: impl Into<String>, field: impl Into<String>) -> Self {
        Self {
            object: object.into(),
            field: field.into(),
            since: None,
        }
    }

    /// Says when the field took this value.
    #[must_use]
    pub fn since(mut self, since: Option<Timestamp>) -> Self {
        self.since = since;
        self
    }
}
