//! Messages of the API server about Volume Warden's own requests, for the users of a namespace.

use kube::core::Status;

/// What replaces an account of another namespace.
const ACCOUNT: &str = "Volume Warden";
/// What replaces the address of a webhook, which names a Service of another namespace and may
/// contain a secret path.
const ADDRESS: &str = "its address";

/// Returns the message of the API server without the quoted names of service accounts and without
/// quoted addresses: an Event or a warning for the users of one namespace names no object of
/// another one.
pub fn for_users(status: &Status) -> String {
    let parts = status.message.split('"').enumerate();
    let parts = parts.map(|(place, part)| match place % 2 {
        1 if part.starts_with("system:serviceaccount:") => ACCOUNT,
        1 if part.starts_with("https://") || part.starts_with("http://") => ADDRESS,
        _ => part,
    });
    parts.collect::<Vec<_>>().join("\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The messages are real answers of the API server.
    #[test]
    fn accounts_and_addresses_are_left_out() {
        for (message, expected) in [
            (
                r#"persistentvolumeclaims is forbidden: User "system:serviceaccount:volume-warden:volume-warden" cannot create resource "persistentvolumeclaims" in API group "" in the namespace "shop""#,
                r#"persistentvolumeclaims is forbidden: User "Volume Warden" cannot create resource "persistentvolumeclaims" in API group "" in the namespace "shop""#,
            ),
            (
                r#"failed calling webhook "claims.example.com": failed to call webhook: Post "https://policy.security.svc:443/claims?timeout=2s": EOF"#,
                r#"failed calling webhook "claims.example.com": failed to call webhook: Post "its address": EOF"#,
            ),
            (
                r#"exceeded quota: few, requested: persistentvolumeclaims=1"#,
                r#"exceeded quota: few, requested: persistentvolumeclaims=1"#,
            ),
            (r#"an "open quote"#, r#"an "open quote"#),
        ] {
            let status = json!({"code": 403, "message": message});
            let status: Status = serde_json::from_value(status).expect("a status");
            assert_eq!(for_users(&status), expected);
        }
    }
}
