//! Tests of the Events about StorageClasses.

use super::{
    purging::{after, in_trash, server},
    scene::Scene,
};
use crate::{cluster::Reconcile, objects::undelete_window::UNDELETE_WINDOW};
use serde_json::json;

/// The administrator learns of it before a claim of the class is lost.
#[tokio::test(start_paused = true)]
async fn an_annotation_that_cannot_be_parsed_is_reported_before_the_class_has_volumes() {
    let scene = Scene::new(server(), after(10), in_trash(json!({})), &[]);
    let class = json!({"metadata": {"name": "new", "annotations": {UNDELETE_WINDOW: "soon"}},
        "provisioner": "p"});
    let class = serde_json::from_value(class).expect("a class");
    scene.reconciler.caches.classes.hear(class, true);
    for _ in 0..2 {
        scene.reconciler.candidates();
    }
    let notes = scene.notes().await;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains(UNDELETE_WINDOW), "{notes:?}");
}
