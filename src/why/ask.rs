//! Reads and explains, until nothing more has to be read.

use super::{Answer, Conclusion, Look, Object, World, explain::explain};
use k8s_openapi::jiff::Timestamp;
use kube::Client;

/// What was found out about an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Explanation {
    /// Why it is as it is.
    Explained(Answer),
    /// There is no such object.
    NotFound,
    /// It could not be read: what, and why.
    Unread(Vec<String>),
}

impl Explanation {
    /// Whether the two explanations say the same, so that the second need not be printed.
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

/// Health is not concluded where something could not be read.
fn certain(conclusion: Conclusion, object: &Object, unread: &[String]) -> Conclusion {
    match conclusion {
        Conclusion::Healthy { reason } if !unread.is_empty() => {
            Conclusion::nothing_found(object, reason)
        }
        other => other,
    }
}

/// Explains that object by live reads with the rights of `client`.
pub async fn ask(client: Client, object: &Object, now: Timestamp) -> Explanation {
    let mut world = World::new(client, now);
    loop {
        let look = explain(&world, object);
        if world.fulfil().await {
            continue;
        }
        let (unread, calls) = (world.unread(), world.calls());
        return match look {
            Look::Unread => Explanation::Unread(unread),
            Look::Found(answer) => Explanation::Explained(Answer {
                conclusion: certain(answer.conclusion, object, &unread),
                unread,
                calls,
                ..answer
            }),
            Look::Absent => Explanation::NotFound,
        };
    }
}
