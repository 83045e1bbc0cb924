//! Faults that the server can simulate.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// As the number of requests: the fault applies to every request.
pub const FOR_EVER: usize = usize::MAX;

/// The endpoint of a request.
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
    /// Any other path.
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

/// A simulated fault of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is not processed, and the response has this status and body.
    Answer(u16, String),
    /// The request is not processed, and the response redirects with this status to this URL.
    Redirect(u16, String),
    /// The request is not processed, and the connection is closed without a response.
    CutBefore,
    /// The request is processed, and the connection is closed without a response.
    CutAfter,
    /// The request is processed, and the connection is closed in the middle of the body.
    CutBody,
    /// The request is processed, and there is no response.
    Silence,
    /// The request is not processed; the response has this status and an endless body, sent
    /// slowly.
    SlowBody(u16),
    /// The request is not processed; the response has this status and an endless body, sent as
    /// fast as it is read.
    EndlessBody(u16),
    /// The request is processed, and this is the body of the response.
    Body(String),
}

impl Fault {
    /// A response in the format of the API's own errors.
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

    /// The fault for this request.
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
