//! Tests of namespace-gc; NS-… are test cases of the specification.

mod changed;
mod collecting;
mod judging;
mod labels;
mod reconciling;
mod remembering;
mod retrying;
mod safety;
mod scene;
mod server;
mod storage;
mod waiting;

use super::{rule::judge, *};
