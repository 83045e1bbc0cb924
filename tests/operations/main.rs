//! What an operator does and experiences on real control planes: installation, outages, rotations,
//! restarts and removal. This is a test binary of its own, so that the clusters of the scenarios
//! have stopped before these tests start.

// Tests start in the order of their names, so these start first: they share three clusters, each
// of which one test at a time uses.
mod admission_outages;
mod authentication;
mod certificates;
mod chart;
mod documentation;
mod fresh;
mod install;
mod metrics;
mod replicas;
#[path = "../support/mod.rs"]
mod support;
mod upgrade;
