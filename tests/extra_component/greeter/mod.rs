//! `greeter`: a component that only this test knows. A claim carries the finalizer that `--greeting` names.

mod assemble;
mod metrics;
mod options;
mod reconcile;
mod webhooks;

pub use assemble::Greeter;

const NAME: &str = "greeter";
