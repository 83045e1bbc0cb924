//! The work of an operator on real control planes: installation, outages, rotations, restarts and
//! removal. Separate from the scenarios, so that their clusters have ended before these start.

mod authentication;
mod certificates;
mod chart;
mod documentation;
mod install;
mod metrics;
mod outages;
mod replicas;
#[path = "../support/mod.rs"]
mod support;
mod upgrade;
