//! Tests of the record that a volume gets when it is moved to the trash.

use super::{
    purging::{after, in_trash, server, written},
    record,
    scene::{Scene, Server},
};
use crate::objects::trash::TRASH;
use serde_json::{Value, json};

/// The record is that of an earlier claim of the volume. If the namespace was recreated since,
/// nothing shows in which of the two the last claim was created, so users must not restore it.
#[tokio::test(start_paused = true)]
async fn the_namespace_of_an_earlier_claim_is_kept_only_if_it_still_exists() {
    for (live, expected) in [
        (Some("n"), json!("n")),
        (Some("recreated"), Value::Null),
        (None, Value::Null),
    ] {
        let server = Server {
            namespace: live,
            ..server()
        };
        let void = record("0", json!({"deletedAt": after(-60)}));
        let volume = in_trash(json!({"metadata": {"annotations": {TRASH: void.to_string()}}}));
        let scene = Scene::new(server, after(0), volume, &[]);
        scene.reconcile().await.expect("moved to the trash");
        let claim = written(&scene)["claim"].clone();
        assert_eq!(claim["uid"], "1", "{live:?}");
        assert_eq!(claim["namespaceUid"], expected, "{live:?}");
    }
}
