//! The StorageOS client over real sockets. Test names carry the numbers of the specification.

mod calls;
mod faults;
mod logins;
mod support;
mod tls;
mod tokens;
