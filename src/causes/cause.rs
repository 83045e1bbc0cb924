//! A cause of an object's state, with the field that shows it and the next safe step.

use super::Code;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

/// One reason why an object is in its state.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// The name of the cause in JSON output, Events and metrics.
    pub code: Code,
    /// The cause in one or two sentences: what happened and why.
    pub sentence: String,
    /// The field of an object that shows the cause.
    pub evidence: Evidence,
    /// What the user can do about the cause, as the next step.
    pub next: Next,
}

/// The field of an object that shows a cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// Kind and name of the object: `Pod shop/web-0`.
    pub object: String,
    /// Path of the field in the object: `status.phase`.
    pub field: String,
    /// When the field got its present value, if known.
    pub since: Option<Timestamp>,
}

/// The next safe step for the user.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Next {
    /// The user has nothing to do.
    Nothing {
        /// What happens while the user does nothing, as a clause: `the claim is deleted within
        /// seconds`. Empty if that is not known.
        meanwhile: String,
    },
    /// The user can run a command. If it deletes something, `purpose` states when that is safe.
    Run {
        /// The command as a line for a shell.
        command: String,
        /// What the command is for, or when it is safe: `once the pod is not needed`.
        purpose: String,
    },
}

impl Cause {
    /// Creates a cause about which the user can do nothing, until [`Self::wait`] or [`Self::run`]
    /// adds a next step.
    pub fn new(code: Code, sentence: impl Into<String>, evidence: Evidence) -> Self {
        let meanwhile = String::new();
        Self {
            code,
            sentence: sentence.into(),
            evidence,
            next: Next::Nothing { meanwhile },
        }
    }

    /// Adds a sentence.
    #[must_use]
    pub fn adding(mut self, sentence: &str) -> Self {
        self.sentence.push(' ');
        self.sentence.push_str(sentence);
        self
    }

    /// Sets the next step to [`Next::Nothing`], with what happens while the user waits, as a
    /// clause.
    #[must_use]
    pub fn wait(mut self, meanwhile: impl Into<String>) -> Self {
        let meanwhile = meanwhile.into();
        self.next = Next::Nothing { meanwhile };
        self
    }

    /// Sets the command that the user can run, and its purpose.
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
    /// Names the field of an object that shows a cause.
    pub fn new(object: impl Into<String>, field: impl Into<String>) -> Self {
        Self {
            object: object.into(),
            field: field.into(),
            since: None,
        }
    }

    /// Sets when the field got its present value.
    #[must_use]
    pub fn since(mut self, since: Option<Timestamp>) -> Self {
        self.since = since;
        self
    }
}
