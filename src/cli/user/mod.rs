//! What the commands share that a user runs with their own permissions.

pub(super) mod caller;
pub(super) mod exit_code;
pub(super) mod inventory;
pub(super) mod runtime;
pub(super) mod target;
