//! Volume Warden manages Kubernetes volumes through their whole life cycle.
//!
//! ```text
//! watch feeds, one per kind ──► trimmed objects and indexes (cluster, objects)
//!                                     │ view
//!     HTTPS admission ──►  rule: fn decide(view) -> decision  ◄── reconcilers
//!     (admission, tls)                │ action
//!                               apply: the only writer (cluster)
//! ```
//!
//! A component is a folder: its rule, which is a pure function, its webhooks, and its reconciler,
//! which repairs what admission missed. Nothing below the components refers to them;
//! [`components`] lists them, and [`assembly`] builds them. The modules are layers, from
//! [`listener`] and [`objects`] at the bottom to [`cli`] at the top; `tests/architecture` enforces
//! that order.

#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

pub mod admission;
pub mod assembly;
mod awaited;
pub mod backend;
pub mod causes;
pub mod cli;
pub mod clock;
pub mod cluster;
mod columns;
pub mod component;
pub mod components;
pub mod drain;
pub mod go_duration;
pub mod hashing;
pub mod inventory;
pub mod listener;
pub mod objects;
mod plain;
pub mod reason;
mod report;
pub mod telemetry;
pub mod tls;
pub mod unused;
pub mod version;
pub mod why;
