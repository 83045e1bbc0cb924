//! What prevents the deletion of a claim or a volume, as values. Components report these causes in
//! Events, metrics and warnings, and `why` begins its chain of causes with them.
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
