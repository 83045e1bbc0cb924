//! The reasons of Events about refused writes that the constructors of `Action` set. Other refused
//! writes have reasons of their component.

use crate::reason::reasons;

reasons! {
    /// The API server refused to add the protection finalizer.
    FAILED_ADD_FINALIZER: Warning "claim, volume" = "FailedAddFinalizer";
    /// The API server refused to remove the protection finalizer.
    FAILED_REMOVE_FINALIZER: Warning "claim, volume" = "FailedRemoveFinalizer";
    /// The API server refused to add or remove an owner reference or a marker of Volume Warden.
    FAILED_UPDATE_OWNER_REFERENCES: Warning "claim" = "FailedUpdateOwnerReferences";
    /// The API server refused to set or remove the condition `Unused`.
    FAILED_UPDATE_CONDITION: Warning "claim" = "FailedUpdateCondition";
    /// The API server refused the deletion of the claim by Volume Warden.
    FAILED_DELETE: Warning "claim" = "FailedDelete";
}
