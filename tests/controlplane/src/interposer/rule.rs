//! Rules for simulated faults.

use std::time::Duration;

use super::Seen;

/// Selects requests and a fault. A rule without an action changes nothing, and still counts
/// requests.
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
    /// Applies to requests with this method; `*` matches any.
    pub fn on(method: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            path: vec![],
            query: vec![],
            times: usize::MAX,
            action: Action::Pass,
        }
    }

    /// Applies to the watches of this resource, `pods` for example.
    pub fn watch_of(plural: &str) -> Self {
        Self::on("GET")
            .path_contains(format!("/{plural}"))
            .query_contains("watch=true")
    }

    /// Applies to the paginated LISTs of this resource.
    pub fn list_of(plural: &str) -> Self {
        Self::on("GET")
            .path_contains(format!("/{plural}"))
            .query_contains("limit=")
    }

    /// Applies only if the path contains this.
    pub fn path_contains(mut self, part: impl Into<String>) -> Self {
        self.path.push(part.into());
        self
    }

    /// Applies only if the query contains this, `watch=true` for example.
    pub fn query_contains(mut self, part: impl Into<String>) -> Self {
        self.query.push(part.into());
        self
    }

    /// Applies only to the first `times` matching requests.
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// Responds with a `Status` without forwarding the request.
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

    /// Responds with 200 and this JSON without forwarding the request.
    pub fn answer(mut self, body: impl ToString) -> Self {
        self.action = Action::Answer(body.to_string());
        self
    }

    /// Holds the request until released, and then forwards it if its client still waits.
    pub fn hold(mut self) -> Self {
        self.action = Action::Hold;
        self
    }

    /// Holds the request until released, and then forwards it even if its client has disconnected,
    /// as a network may.
    pub fn postpone(mut self) -> Self {
        self.action = Action::Postpone;
        self
    }

    /// Forwards the request at once, and holds the response until released.
    pub fn hold_response(mut self) -> Self {
        self.action = Action::HoldResponse;
        self
    }

    /// Forwards the head of the response, and nothing more of its body until released. Also
    /// applies to a response in progress when the rule is added, an open watch for example.
    pub fn freeze_stream(mut self) -> Self {
        self.action = Action::FreezeStream;
        self
    }

    /// Forwards the request only after this time.
    pub fn delay(mut self, time: Duration) -> Self {
        self.action = Action::Delay(time);
        self
    }

    /// Drops the connection without a response, and also connections with a response in progress.
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
