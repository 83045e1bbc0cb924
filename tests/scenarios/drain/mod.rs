//! `volume-warden drain` with the shipped permissions. A drain handles a whole cluster, so each
//! test has exclusive use of a cluster.

mod back;
mod held;
mod in_use;
mod interrupted;
mod reads;
mod shipped;
pub mod support;
mod trash;
mod uninstall;
