//! `volume-warden drain`, on a cluster of its own, one at a time: it is about a whole cluster. With
//! the rights that are shipped for it.

mod back;
mod held;
mod in_use;
mod interrupted;
mod reads;
mod shipped;
mod story;
pub mod support;
mod trash;
