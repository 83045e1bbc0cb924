//! The cases of the specification, by their numbers.

mod changed;
mod collecting;
mod judging;
mod reconciling;
mod remembering;
mod safety;
mod scene;
mod server;
mod storage;

use super::*;
