//! Messages of the API server about Volume Warden's own requests, for the users of a namespace.

use super::UNREADABLE_ANSWER;
use kube::core::Status;

/// The text that replaces the name of a service account.
const ACCOUNT: &str = "Volume Warden";
/// The text that replaces the address of a webhook, which may name a Service of another namespace
/// or contain a secret path.
const ADDRESS: &str = "its address";

/// The text that replaces a cause that may name the host or the Service of an address.
const FAILED: &str = ": the call failed";

/// Returns the message of the API server without the quoted names of service accounts and without
/// quoted addresses: an Event or a warning for the users of one namespace names no object of
/// another one. The text after the first address is kept only if it has neither a quotation mark
/// nor a dot, because then it names neither an object nor a host.
///
/// Returns none for the answer of a proxy, whose text is not for these users.
pub fn for_users(status: &Status) -> Option<String> {
    if status.reason == UNREADABLE_ANSWER {
        return None;
    }
    let mut parts: Vec<&str> = status.message.split('"').collect();
    // The parts with an odd index are those between quotation marks.
    let mut quoted = (1..parts.len()).step_by(2);
    if let Some(place) = quoted.find(|place| is_address(parts[*place])) {
        let cause = match parts[place + 1..] {
            [cause] if !cause.contains('.') => cause,
            _ => FAILED,
        };
        parts.truncate(place);
        parts.extend([ADDRESS, cause]);
    }
    for part in parts.iter_mut().skip(1).step_by(2) {
        if part.starts_with("system:serviceaccount:") {
            *part = ACCOUNT;
        }
    }
    Some(parts.join("\""))
}

fn is_address(part: &str) -> bool {
    part.starts_with("https://") || part.starts_with("http://")
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
                r#"failed calling webhook "claims.example.com": failed to call webhook: Post "https://policy.security.svc:443/claims?timeout=2s": dial tcp: lookup policy.security.svc on 10.96.0.10:53: no such host"#,
                r#"failed calling webhook "claims.example.com": failed to call webhook: Post "its address": the call failed"#,
            ),
            (
                r#"failed calling webhook "claims.example.com": failed to call webhook: Post "https://policy.security.svc:443/claims?timeout=2s": service "policy" not found"#,
                r#"failed calling webhook "claims.example.com": failed to call webhook: Post "its address": the call failed"#,
            ),
            (
                r#"exceeded quota: few, requested: persistentvolumeclaims=1"#,
                r#"exceeded quota: few, requested: persistentvolumeclaims=1"#,
            ),
            (r#"an "open quote"#, r#"an "open quote"#),
        ] {
            let status = json!({"code": 403, "message": message});
            let status: Status = serde_json::from_value(status).expect("a status");
            assert_eq!(for_users(&status).as_deref(), Some(expected));
        }
    }

    /// kube gives this reason to an answer that is not a `Status`.
    #[test]
    fn the_page_of_a_proxy_is_left_out() {
        let status = Status::failure("<html>10.0.0.1 refused</html>", UNREADABLE_ANSWER);
        assert_eq!(for_users(&status), None);
    }
}
