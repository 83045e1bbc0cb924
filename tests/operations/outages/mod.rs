//! Volume Warden out of order in every way it can be, and what users notice: each of their operations succeeds all the same, by no
//! more than README says later, and what was missed is made good afterwards. All components, as the manifests install them.

mod answers;
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
mod ward;
