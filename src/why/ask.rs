//! Reads and explains, until nothing more has to be read.

use super::{Answer, Look, Object, World, explain::explain};
use k8s_openapi::jiff::Timestamp;
use kube::Client;

/// What was found out about an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// Why it is as it is.
    Explained(Answer),
    /// There is no such object.
    NotFound,
    /// It could not be read: what, and why.
    Unread(Vec<String>),
}

/// Explains that object by live reads with the rights of `client`, and says how many calls that took.
pub async fn ask(client: Client, object: &Object, now: Timestamp) -> (Told, usize) {
    let mut world = World::new(client, now);
    loop {
        let look = explain(&world, object);
        if world.fulfil().await {
            continue;
        }
        let unread = world.unread();
        let told = match look {
            Look::Unread => Told::Unread(unread),
            Look::Found(answer) => Told::Explained(Answer { unread, ..answer }),
            Look::Absent => Told::NotFound,
        };
        return (told, world.calls());
    }
}
