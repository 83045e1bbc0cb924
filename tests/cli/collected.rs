//! `gc`, against an API server that gives prepared answers.

use super::answers::{EMPTY, asked, has, status};

/// The default scope `all` would delete the namespaces of other clusters.
#[test]
fn a_config_map_that_cannot_be_read_ends_the_command() {
    let storage = ["--storage-backend=storageos", "--insecure-http"];
    for what in ["--dry-run", "--once"] {
        // Nothing listens there.
        let endpoint = "--storageos-endpoint=http://127.0.0.1:1";
        let forbidden = status(403, "Forbidden", "you may not");
        let answers = vec![
            ("/configmaps/", 403, forbidden),
            ("GET", 200, EMPTY.to_owned()),
        ];
        let (ended, requests) = asked(&["gc", what, storage[0], storage[1], endpoint], answers);
        assert_eq!(
            (ended.code, &*ended.stdout),
            (Some(1), ""),
            "{}",
            ended.stderr
        );
        has(
            &ended.stderr,
            &[
                "could not be read, so it is unknown whether this storage is shared with other \
                 clusters: you may not",
                "--gc-scope=all",
            ],
        );
        assert_eq!(requests.len(), 1, "{requests:?}");
        has(&requests[0], &["/configmaps/volume-warden-seen-namespaces"]);
    }
}
