//! The HTTPS server: it receives admission reviews, calls the webhook of a component and answers.
//! This module refers to no component.

mod added_annotation;
mod answer;
mod authenticated_connections;
mod body_budget;
mod byte_limited;
mod call_budget;
mod client_state;
mod connection;
mod decision;
mod envelope;
mod hook;
mod limits;
mod measured;
mod not_served;
mod outcome;
mod path_authenticator;
mod published_path;
mod request;
mod router;
mod secret_paths;
mod server;

pub use added_annotation::without_added_annotation;
pub use answer::{Answer, Reviewed, Unavailable};
pub use hook::{Hook, Review, Rule};
pub use limits::Limits;
pub use published_path::{PathPublisher, Rotation, Settings as PathSettings};
pub use request::{Request, UserInfo};
pub use router::{Options, router};
pub use secret_paths::{PathSecret, SecretPaths};
pub use server::serve;
