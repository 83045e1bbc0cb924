//! The work of an operator on real control planes: installation, outages, rotations, restarts and
//! removal. Separate from the scenarios, so that their clusters have ended before these start.

// First in the order of names, so first at work: its tests share three clusters, one at a time.
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
