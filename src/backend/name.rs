//! Checks the names of namespaces that a storage backend lists.

/// Returns whether `name` is a DNS label, as the name of every Kubernetes namespace is. A storage
/// namespace with any other name would be mistaken for an orphan, because Kubernetes cannot have a
/// namespace of that name.
pub(super) fn may_be_namespace(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    bytes.len() <= 63
        && ends
            .into_iter()
            .all(|end| end.is_some_and(|end| plain(*end)))
        && bytes.iter().all(|byte| plain(*byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_namespace_of_kubernetes_can_be_called() {
        let longest = "a".repeat(63);
        for name in ["a", "0", "team-a", "kube-system", "a--b", &longest] {
            assert!(may_be_namespace(name), "{name}");
        }
        let too_long = "a".repeat(64);
        for name in [
            "", ".", "..", "team.a", "-a", "a-", "A", "a_b", "a/b", "a b", "\u{e9}", &too_long,
        ] {
            assert!(!may_be_namespace(name), "{name}");
        }
    }
}
