//! The shipped roles: what they grant is what Volume Warden uses, no less and no more. Each
//! component is installed alone and lives through all that it can do; the API server's audit log
//! says which of its rights it used, and that none was missing.

mod drain;
mod lives;
mod stolen_claims;
mod stolen_copies;
mod stolen_large;
mod stolen_trash;
mod stolen_volumes;
mod stolen_webhooks;
mod tenant;
mod thief;
