//! What may go wrong.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// As many times as there are requests.
pub const FOR_EVER: usize = usize::MAX;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// POST `/auth/login`
    Login,
    /// POST `/auth/refresh`
    Refresh,
    /// GET `/namespaces`
    List,
    /// DELETE `/namespaces/{id}`
    Delete,
    /// Anything else.
    Other,
}

impl Endpoint {
    pub(crate) fn of(method: &str, path: &str) -> Self {
        let in_namespaces = path.rsplit('/').nth(1) == Some("namespaces");
        match method {
            "POST" if path.ends_with("/auth/login") => Self::Login,
            "POST" if path.ends_with("/auth/refresh") => Self::Refresh,
            "GET" if path.ends_with("/namespaces") => Self::List,
            "DELETE" if in_namespaces => Self::Delete,
            _ => Self::Other,
        }
    }
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done, and this is the answer: status and body.
    Answer(u16, String),
    /// Nothing is done, and the answer, of this status, sends the client to this URL.
    Redirect(u16, String),
    /// Nothing is done, and the connection is closed without an answer.
    CutBefore,
    /// It is done, and the connection is closed without an answer.
    CutAfter,
    /// It is done, and the connection is closed in the middle of the body.
    CutBody,
    /// It is done, and there is no answer.
    Silence,
    /// Nothing is done; the answer has this status and its body never ends, and comes slowly.
    SlowBody(u16),
    /// Nothing is done; the answer has this status and its body never ends, and comes as fast as it is read.
    EndlessBody(u16),
    /// Whatever is done, this is the body of the answer.
    Body(String),
}

impl Fault {
    /// An answer as the API itself makes it.
    pub fn error(status: u16, message: &str) -> Self {
        let body = serde_json::json!({ "error": message });
        Self::Answer(status, body.to_string())
    }
}

#[derive(Debug, Default)]
pub(crate) struct Faults(HashMap<Endpoint, VecDeque<(Arc<Fault>, usize)>>);

impl Faults {
    pub(crate) fn push(&mut self, endpoint: Endpoint, fault: Fault, times: usize) {
        let line = self.0.entry(endpoint).or_default();
        line.push_back((Arc::new(fault), times));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The one for this request.
    pub(crate) fn take(&mut self, endpoint: Endpoint) -> Option<Arc<Fault>> {
        let line = self.0.get_mut(&endpoint)?;
        line.retain(|(_, times)| *times > 0);
        let (fault, times) = line.front_mut()?;
        if *times != FOR_EVER {
            *times -= 1;
        }
        Some(fault.clone())
    }
}
