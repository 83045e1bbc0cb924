//! The HTTPS side: takes admission reviews, asks a component's hook, answers. Knows no component.

mod decision;
mod envelope;
mod hook;
mod router;
mod server;

pub use hook::{Answer, Hook, Request, Review, Rule, UserInfo};
pub use router::{Options, router};
pub use server::{Certificate, Limits, serve};
