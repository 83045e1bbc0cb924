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
//! `components` lists them, and `assembly` builds them. The modules are layers, from
//! `listener` and `objects` at the bottom to `cli` at the top; `tests/architecture` enforces
//! that order.

#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::iter_over_hash_type
    )
)]

// The modules are private, so that the compiler finds what nothing uses. The simulation, the tests,
// the benchmarks and the fuzz targets see them by the feature `simulation`.
#[cfg(not(feature = "simulation"))]
mod admission;
#[cfg(feature = "simulation")]
pub mod admission;
#[cfg(not(feature = "simulation"))]
mod assembly;
#[cfg(feature = "simulation")]
pub mod assembly;
mod awaited;
#[cfg(not(feature = "simulation"))]
mod backend;
#[cfg(feature = "simulation")]
pub mod backend;
#[cfg(not(feature = "simulation"))]
mod causes;
#[cfg(feature = "simulation")]
pub mod causes;
#[cfg(not(feature = "simulation"))]
mod cli;
#[cfg(feature = "simulation")]
pub mod cli;
#[cfg(not(feature = "simulation"))]
mod clock;
#[cfg(feature = "simulation")]
pub mod clock;
#[cfg(not(feature = "simulation"))]
mod cluster;
#[cfg(feature = "simulation")]
pub mod cluster;
mod columns;
#[cfg(not(feature = "simulation"))]
mod component;
#[cfg(feature = "simulation")]
pub mod component;
#[cfg(not(feature = "simulation"))]
mod components;
#[cfg(feature = "simulation")]
pub mod components;
#[cfg(not(feature = "simulation"))]
mod drain;
#[cfg(feature = "simulation")]
pub mod drain;
#[cfg(not(feature = "simulation"))]
mod go_duration;
#[cfg(feature = "simulation")]
pub mod go_duration;
#[cfg(not(feature = "simulation"))]
mod hashing;
#[cfg(feature = "simulation")]
pub mod hashing;
mod installation;
mod inventory;
mod listener;
#[cfg(not(feature = "simulation"))]
mod objects;
#[cfg(feature = "simulation")]
pub mod objects;
mod plain;
#[cfg(not(feature = "simulation"))]
mod reason;
#[cfg(feature = "simulation")]
pub mod reason;
mod report;
#[cfg(not(feature = "simulation"))]
mod telemetry;
#[cfg(feature = "simulation")]
pub mod telemetry;
#[cfg(not(feature = "simulation"))]
mod tls;
#[cfg(feature = "simulation")]
pub mod tls;
mod unused;
#[cfg(not(feature = "simulation"))]
mod version;
#[cfg(feature = "simulation")]
pub mod version;
#[cfg(not(feature = "simulation"))]
mod why;
#[cfg(feature = "simulation")]
pub mod why;

pub use cli::main;
pub use components::ALL as COMPONENTS;
