//! Explains one object: runs the explanation again after each read, until it requests no further
//! object.

use super::{Answer, Conclusion, LiveReads, Lookup, Object, explain::explain};
use k8s_openapi::jiff::Timestamp;
use kube::Client;

/// The result of explaining an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Explanation {
    /// The answer about the object, which can be that no cause was found. The object exists, or it
    /// is a namespace that Kubernetes has deleted and the storage backend still has.
    Explained(Answer),
    /// The object does not exist.
    NotFound,
    /// The object could not be read. Each sentence names what could not be read, and the error.
    Unread(Vec<String>),
}

impl Explanation {
    /// Whether the two explanations differ at most in the number of API calls, so that the second
    /// need not be printed.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Explained(one), Self::Explained(other)) => {
                Answer {
                    calls: other.calls,
                    ..one.clone()
                } == *other
            }
            (one, other) => one == other,
        }
    }
}

/// Replaces the conclusion that the object is healthy by [`Conclusion::NothingFound`] if anything
/// that the answer depends on could not be read.
fn certain(conclusion: Conclusion, object: &Object, unread: &[String]) -> Conclusion {
    match conclusion {
        Conclusion::Healthy { reason } if !unread.is_empty() => {
            Conclusion::nothing_found(object, reason)
        }
        other => other,
    }
}

/// Explains the object with live reads, with the permissions of `client`.
pub async fn explain_live(client: Client, object: &Object, now: Timestamp) -> Explanation {
    let mut reads = LiveReads::new(client, now);
    loop {
        let lookup = explain(&reads, object);
        if reads.read_requested().await {
            continue;
        }
        let (unread, calls) = (reads.unread(), reads.calls());
        return match lookup {
            Lookup::Unread => Explanation::Unread(unread),
            Lookup::Found(answer) => Explanation::Explained(Answer {
                conclusion: certain(answer.conclusion, object, &unread),
                unread,
                calls,
                ..answer
            }),
            Lookup::Absent => Explanation::NotFound,
        };
    }
}
