//! Tests of the commands, kustomizations and examples in the documentation on a real API server.

mod commands;
mod executed;
mod first_use;
mod overlay;
#[path = "../../support/documentation.rs"]
pub mod pages;
mod programs;
mod understood;
