//! What an operator of Volume Warden lives through, on real control planes: installing it, running it through outages, rotations and
//! restarts, and removal. Apart from the scenarios so that their clusters have ended before these start.

mod authentication;
mod chart;
mod install;
mod metrics;
mod outages;
mod replicas;
#[path = "../support/mod.rs"]
mod support;
mod tls;
