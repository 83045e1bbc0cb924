//! Which requests go wrong, and how.

use std::time::Duration;

use super::Seen;

/// Which requests go wrong, and how. Without an action it changes nothing, and still counts.
#[derive(Debug, Clone)]
#[must_use = "a rule does nothing before it is added"]
pub struct Rule {
    method: String,
    path: Vec<String>,
    query: Vec<String>,
    pub(super) times: usize,
    pub(super) action: Action,
}

#[derive(Debug, Clone)]
pub(super) enum Action {
    Pass,
    Respond {
        code: u16,
        reason: String,
        message: String,
    },
    Answer(String),
    Hold,
    Postpone,
    HoldResponse,
    FreezeStream,
    Delay(Duration),
    Cut,
}

impl Rule {
    /// For requests with this method; `*` is any.
    pub fn on(method: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            path: vec![],
            query: vec![],
            times: usize::MAX,
            action: Action::Pass,
        }
    }

    /// Only if the path contains this.
    pub fn path_contains(mut self, part: impl Into<String>) -> Self {
        self.path.push(part.into());
        self
    }

    /// Only if the query contains this, `watch=true` for example.
    pub fn query_contains(mut self, part: impl Into<String>) -> Self {
        self.query.push(part.into());
        self
    }

    /// Only for the first `times` of them.
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// Answers with a `Status` instead of asking the API server.
    pub fn respond(
        mut self,
        code: u16,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        self.action = Action::Respond {
            code,
            reason: reason.into(),
            message: message.into(),
        };
        self
    }

    /// Answers 200 with this JSON instead of asking the API server.
    pub fn answer(mut self, body: impl ToString) -> Self {
        self.action = Action::Answer(body.to_string());
        self
    }

    /// Holds the request back, and forwards it once released if its client still waits for the answer.
    pub fn hold(mut self) -> Self {
        self.action = Action::Hold;
        self
    }

    /// Holds the request back, and forwards it once released, also if its client has given up by then: as a network may.
    pub fn postpone(mut self) -> Self {
        self.action = Action::Postpone;
        self
    }

    /// Forwards the request at once, and holds the answer back until released.
    pub fn hold_response(mut self) -> Self {
        self.action = Action::HoldResponse;
        self
    }

    /// Passes on the head of the answer, and nothing of its body from now on until released. Also applies
    /// to an answer that is under way when the rule is added, an open watch for example.
    pub fn freeze_stream(mut self) -> Self {
        self.action = Action::FreezeStream;
        self
    }

    /// Forwards the request only after this time.
    pub fn delay(mut self, time: Duration) -> Self {
        self.action = Action::Delay(time);
        self
    }

    /// Drops the connection without an answer, and also those whose answer is under way.
    pub fn cut(mut self) -> Self {
        self.action = Action::Cut;
        self
    }

    pub(super) fn matches(&self, seen: &Seen) -> bool {
        (self.method == "*" || self.method == seen.method)
            && self.path.iter().all(|part| seen.path.contains(part))
            && self.query.iter().all(|part| seen.query.contains(part))
    }
}
