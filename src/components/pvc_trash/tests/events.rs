//! Tests of what the Events of pvc-trash say.

use super::{
    copies::deliver,
    purging::{after, in_trash, requesting, server},
    record,
    scene::{Scene, Server},
};
use crate::{
    cluster::Reconcile,
    objects::{ObjectName, trash::TRASH},
};
use serde_json::{Value, json};

/// The notes of the Events about a claim that was deleted ten minutes ago. The API server has a
/// namespace with this uid.
async fn notes_of_a_deletion(namespace: Option<&'static str>, changes: Value) -> Vec<String> {
    let mut kept = record("1", json!({}));
    json_patch::merge(&mut kept, &changes);
    let volume = in_trash(json!({"metadata": {"annotations": {TRASH: kept.to_string()}}}));
    let server = Server {
        namespace,
        time: after(10),
        ..server()
    };
    let scene = Scene::new(server, after(10), volume, &[]);
    scene.reconcile().await.expect("it is in the trash");
    scene.notes().await
}

/// The claim of a namespace that is deleted cannot be created in it, and one that is created again
/// has another uid.
#[tokio::test(start_paused = true)]
async fn a_deletion_with_its_namespace_is_undone_by_an_administrator() {
    for (namespace, to, on_claim) in [
        (Some("n"), "", true),
        (Some("n terminating"), " --to-namespace NAMESPACE", true),
        (Some("recreated"), " --to-namespace ns", false),
        (None, " --to-namespace NAMESPACE", false),
    ] {
        let notes = notes_of_a_deletion(namespace, json!({})).await;
        let expected = 1 + usize::from(on_claim);
        assert_eq!(
            notes.len(),
            expected,
            "on the volume, and on the claim: {notes:?}"
        );
        for note in notes {
            let command = format!("volume-warden undelete pvc data -n ns{to}");
            assert!(note.ends_with(&command), "{note}");
        }
    }
}

/// The Event `Purged` follows in the same second.
#[tokio::test(start_paused = true)]
async fn no_event_says_that_data_is_kept_for_no_time() {
    for (changes, events) in [
        (json!({"windowSeconds": 0}), 0),
        (json!({"windowSeconds": 1}), 2),
        (json!({"windowSeconds": 0, "policy": "Retain"}), 2),
    ] {
        let notes = notes_of_a_deletion(Some("n"), changes).await;
        assert_eq!(notes.len(), events, "{notes:?}");
    }
}

/// The volume was removed by force, which the watch has not delivered yet.
#[tokio::test(start_paused = true)]
async fn a_volume_that_does_not_exist_is_not_restored() {
    let again = requesting("again", "pv");
    let server = Server {
        claims: vec![again.clone()],
        time: after(10),
        ..server()
    };
    let scene = Scene::new(server, after(10), in_trash(json!({})), &[again]);
    scene.server.stored.lock().0 = Value::Null;
    scene.reconcile().await.expect_err("it is not restored");
    assert_eq!(scene.notes().await, [""; 0]);
}

/// The volume of a claim that requests it was removed by force.
#[tokio::test(start_paused = true)]
async fn a_claim_learns_once_that_its_volume_does_not_exist() {
    for (copied, words) in [
        (false, "Delete the claim"),
        (
            true,
            "volume-warden trash repair --system-namespace volume-warden",
        ),
    ] {
        let elsewhere = in_trash(json!({"metadata": {"name": "another"}}));
        let again = requesting("again", "pv");
        let scene = Scene::new(server(), after(120), elsewhere, &[again]);
        scene.server.stored.lock().0 = Value::Null;
        if copied {
            deliver(
                &scene,
                "v",
                in_trash(json!({"spec": {"csi": {"driver": "d", "volumeHandle": "h"}}})),
            );
        }
        for _ in 0..2 {
            scene.reconciler.candidates();
            scene.reconcile().await.expect("decided");
        }
        let notes = scene.notes().await;
        assert_eq!(notes.len(), 1, "once: {notes:?}");
        assert!(notes[0].contains(words), "{notes:?}");
        assert_eq!(notes[0].contains("Delete the claim"), !copied, "{notes:?}");
    }
}

/// The volume is purged while the claim waits for it, and then does not exist any more.
#[tokio::test(start_paused = true)]
async fn a_claim_gets_one_event_about_the_end_of_its_volume() {
    let again = requesting("again", "pv");
    let purged = in_trash(json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}));
    let scene = Scene::new(server(), after(120), purged.clone(), &[again]);
    scene.reconcile().await.expect("it is being purged");
    assert_eq!(scene.notes().await.len(), 1);
    scene.server.stored.lock().0 = Value::Null;
    let purged = serde_json::from_value(purged).expect("a volume");
    scene.reconciler.caches.volumes.deliver(purged, false);
    scene.reconciler.candidates();
    scene.reconcile().await.expect("it is gone");
    let notes = scene.notes().await;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("has been purged"), "{notes:?}");
}

/// The Event asks users to delete the claim, so it does not rest on the watch.
#[tokio::test(start_paused = true)]
async fn a_volume_that_the_watch_does_not_show_yet_is_not_reported() {
    let elsewhere = in_trash(json!({"metadata": {"name": "another"}}));
    let again = requesting("again", "pv");
    let scene = Scene::new(server(), after(120), elsewhere, &[again]);
    scene.reconcile().await.expect("decided");
    assert_eq!(scene.notes().await, [""; 0]);
}

/// The API server accepts any text as the volume name of a claim. No read is sent for it.
#[tokio::test(start_paused = true)]
async fn a_claim_learns_that_no_volume_can_have_the_name_that_it_requests() {
    let elsewhere = in_trash(json!({"metadata": {"name": "another"}}));
    let scene = Scene::new(
        server(),
        after(120),
        elsewhere,
        &[requesting("again", "A_B")],
    );
    let name = ObjectName::cluster_scoped("A_B");
    let reconciled = scene.reconciler.reconcile(&name).await;
    reconciled.expect("it is not retried");
    let notes = scene.notes().await;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("does not exist any more"), "{notes:?}");
}
