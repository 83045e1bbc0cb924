//! `greeter`: a component that only this test has. It adds the finalizer in `--greeting` to claims.

mod assemble;
mod metrics;
mod options;
mod reconcile;
mod webhooks;

pub use assemble::Greeter;

const NAME: &str = "greeter";
