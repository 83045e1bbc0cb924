//! Outages of Volume Warden, and their effect on users. During an outage, every operation of users
//! succeeds, delayed by no more than docs/operations/webhook-latency.md states. After it, Volume
//! Warden does the missed work. All components run as the manifests install them.

mod answers;
mod fixture;
mod handover;
mod latency;
mod outsiders;
mod overloaded;
mod rolling;
mod shipped;
mod slow;
mod stale;
mod stand_in;
mod unreachable;
mod untrusted;
mod users;
