//! The command `gc`, against an API server with predefined responses.

use super::answers::{EMPTY, assert_contains, run_against, status};

/// With the default scope `all`, the command would delete the namespaces of other clusters that
/// share the storage.
#[test]
fn a_config_map_that_cannot_be_read_ends_the_command() {
    let storage = ["--storage-backend=storageos", "--insecure-http"];
    for what in ["--dry-run", "--once"] {
        // No process listens on this port.
        let endpoint = "--storageos-endpoint=http://127.0.0.1:1";
        let forbidden = status(403, "Forbidden", "you may not");
        let answers = vec![
            ("/configmaps/", 403, forbidden),
            ("GET", 200, EMPTY.to_owned()),
        ];
        let (finished, requests) =
            run_against(&["gc", what, storage[0], storage[1], endpoint], answers);
        assert_eq!(
            (finished.code, &*finished.stdout),
            (Some(1), ""),
            "{}",
            finished.stderr
        );
        assert_contains(
            &finished.stderr,
            &[
                "could not be read, so it is unknown whether this storage is shared with other \
                 clusters: you may not",
                "--gc-scope=all",
            ],
        );
        assert_eq!(requests.len(), 1, "{requests:?}");
        assert_contains(&requests[0], &["/configmaps/volume-warden-seen-namespaces"]);
    }
}
