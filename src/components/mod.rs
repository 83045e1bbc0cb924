//! The list of components. To add a component, add a folder, an entry in [`ALL`], and manifests.

pub mod namespace_gc;
pub mod pv_protection;
pub mod pv_releaser;
pub mod pvc_expiry;
pub mod pvc_protection;
pub mod pvc_provisioner;
pub mod pvc_retention;
pub mod pvc_trash;
pub mod trash_list;

use crate::component::ComponentRef;

/// All components, in the order in which help and logs name them.
pub static ALL: &[ComponentRef] = &[
    &pvc_protection::PvcProtection,
    &pv_protection::PvProtection,
    &pvc_retention::PvcRetention,
    &pvc_provisioner::PvcProvisioner,
    &pv_releaser::PvReleaser,
    &pvc_trash::PvcTrash,
    &pvc_expiry::PvcExpiry,
    &trash_list::TrashListing,
    &namespace_gc::NamespaceGc,
];
