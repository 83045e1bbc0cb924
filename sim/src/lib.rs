//! Runs Volume Warden against a model of a cluster in one process. A seed decides what happens.

mod actors;
mod admission;
mod checks;
mod cluster;
mod conditions;
mod connection;
pub mod explore;
mod faults;
mod json;
mod manifests;
pub mod mutants;
mod network;
pub mod panics;
pub mod plan;
mod policies;
mod random;
mod repeat;
mod replica;
mod schedule;
pub mod shrink;
mod steps;
pub mod trace;
mod view;
mod watches;
pub mod world;
