//! What the documentation shows works on a real API server: its commands, its kustomization, and
//! the first use of the components.

mod commands;
mod executed;
mod first_use;
mod overlay;
#[path = "../../support/documentation.rs"]
pub mod pages;
mod programs;
mod understood;
