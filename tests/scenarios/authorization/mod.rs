//! The shipped roles grant exactly the permissions that Volume Warden uses. Each component is
//! installed alone and performs all of its actions; the API server's audit log shows which of its
//! permissions it used, and that no permission was missing. The modules `stolen_*` show which
//! writes a stolen token of the service account permits.

mod drain;
mod installation;
mod lives;
mod stolen_claims;
mod stolen_copies;
mod stolen_large;
mod stolen_token;
mod stolen_trash;
mod stolen_volumes;
mod stolen_webhooks;
