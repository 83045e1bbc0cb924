//! `pvc-retention`: the claims of a StatefulSet go with the set, or with the pod that was scaled away, where its policy says so.
//!
//! **Rule.** `spec.persistentVolumeClaimRetentionPolicy` of a set says what becomes of its claims, `<template>-<set>-<ordinal>`. A claim
//! that is to go has an owner reference to what it goes with, and the garbage collector does the deleting: to the set where
//! `whenDeleted` is Delete; to the pod, instead, while a pod is condemned (its ordinal out of range) and `whenScaled` is Delete. All
//! other references stay as they are. Somebody else's controller on a claim, or a reference to an earlier incarnation: hands off.
//!
//! A claim whose ordinal is in range while `whenScaled` is Delete carries a mark with the set's uid. If its ordinal is found out of
//! range with the pod already gone, there is nobody left to own it; then, and only with that mark, we delete it ourselves.
//!
//! What keeps a claim is written first and apart: a set that is scaled up again does not wait until what was begun for its
//! scale-down is done.
//!
//! In the background nothing is written before the set was read live, and nothing that rests on a pod before the pods were. Where
//! the name of a claim can be read in several ways, nothing is written, at admission neither, before every set that it may mean
//! was read live.
//!
//! **Source.** KEP-1847 and `pkg/controller/statefulset/stateful_set_utils.go` of Kubernetes 1.34. What differs: a claim is stamped
//! when it is created, so that a set deleted early leaks none; the claims of ordinals without a pod follow the policy too; an
//! ordinal that is in range again takes the reference to its old pod back, for both pod management policies; a claim controlled by
//! somebody else is always told of; a reference with a wrong apiVersion is repaired once instead of being written for ever.

mod assemble;
mod caches;
mod drain;
mod judged;
mod marks;
mod metrics;
mod notices;
mod ownership;
mod patch;
mod reconcile;
mod resolve_set;
mod rivals;
mod rule;
mod subject;
mod triggers;
mod webhooks;

#[cfg(test)]
mod tests;

pub use assemble::PvcRetention;
pub use caches::Caches;
pub use drain::to_take_back;
pub use marks::strip_marker_hook;
pub use metrics::register as register_metrics;
pub use notices::EventDeduplicator;
pub use ownership::{Owner, Owners};
pub use patch::changes;
pub use reconcile::PvcRetentionReconciler;
pub use resolve_set::{Candidate, resolve_set};
pub use rule::{Fate, Mark, PodSlot, Step, Update, Verdict, View, decide};
pub use subject::Subject;
pub use webhooks::hook;

/// Longest wait for the live read of one set.
const READ_LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

/// The component's name, in the CLI and everywhere.
pub const NAME: &str = "pvc-retention";
