//! What keeps a claim or a volume that is being deleted, as values: components report it in Events,
//! metrics and warnings, and `why` begins its chain of causes with it.
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
pub use object::Object;
pub use wording::{describe, note, warning};
