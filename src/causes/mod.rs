//! Causes of an object's state, as values, and the rules for what prevents the deletion of a claim
//! or a volume. Components report the latter in Events, metrics and warnings; `why` reports all
//! causes.
//!
//! Everything here is a pure function of trimmed objects. It reads nothing from the API server.

mod cause;
mod code;
mod finalizer_owners;
mod holders;
mod object;
mod wording;

pub use cause::{Cause, Evidence, Next};
pub use code::Code;
pub use finalizer_owners::{ATTACHER, PROVISIONER, PV_CONTROLLER, owner};
pub use holders::{
    FinishedPods, Holder, NamedPod, claim_code, claim_holders, is_bound, uses, volume_code,
    volume_holders,
};
pub use object::{Object, ObjectKind};
pub use wording::{describe, note, warning};
