//! Every outage of Volume Warden, and its effect on users: each of their operations succeeds,
//! delayed by no more than docs/operations/webhook-latency.md states, and the missed work is done
//! afterwards. All components run as the manifests install them.

mod answers;
mod fixture;
mod handover;
mod latency;
mod outsiders;
mod rolling;
mod shipped;
mod slow;
mod stale;
mod stand_in;
mod swamped;
mod unreachable;
mod untrusted;
mod users;
