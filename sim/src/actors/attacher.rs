//! The attach-detach controller: a volume is attached while a scheduled pod uses its claim.

use super::{Call, Controller};
use crate::{
    cluster::Cluster,
    json::{claims_of, is_finished, name, namespace, text, uid},
    random::digest,
    view::View,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The attach-detach controller.
#[derive(Default)]
pub struct Attacher {
    /// The virtual millisecond at which the detaching of each attachment (by uid) began.
    detaching: BTreeMap<String, u64>,
    /// Whether a volume is still being detached.
    waits: bool,
}

/// Maximum time that a driver takes to detach a volume, in milliseconds.
const DETACHING: u64 = 6_000;

const COLLECTION: &str = "/apis/storage.k8s.io/v1/volumeattachments";

impl Controller for Attacher {
    const NAME: &'static str = "attach-detach-controller";
    const USER: &'static str = "system:serviceaccount:kube-system:attachdetach-controller";
    const KINDS: &'static [&'static str] = &["pods", "persistentvolumeclaims", "volumeattachments"];

    fn act(&mut self, view: &View, live: &Cluster, now: u64) -> Vec<Call> {
        let scheduled = view
            .all("pods")
            .filter(|pod| !text(pod, "/spec/nodeName").is_empty() && !is_finished(pod));
        let used = scheduled
            .flat_map(|pod| claims_of(pod).filter_map(|claim| volume_of(view, pod, claim)));
        let used: BTreeSet<&str> = used.collect();
        let attachment = |volume: &str| format!("csi-{volume}");
        let missing = used.iter().filter(|volume| {
            view.get("volumeattachments", "", &attachment(volume))
                .is_none()
        });
        let attach = missing.map(|volume| Call::create(COLLECTION, json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {"name": attachment(volume)},
            "spec": {"attacher": "sim", "nodeName": "node", "source": {"persistentVolumeName": volume}},
        })));
        let unused = view
            .all("volumeattachments")
            .filter(|each| !used.contains(text(each, "/spec/source/persistentVolumeName")));
        self.waits = false;
        let mut calls: Vec<Call> = attach.collect();
        for each in unused {
            let began = *self.detaching.entry(uid(each).to_owned()).or_insert(now);
            if now >= began + digest((live.seed, uid(each))) % DETACHING {
                calls.push(Call::delete(
                    format!("{COLLECTION}/{}", name(each)),
                    uid(each),
                ));
            } else {
                self.waits = true;
            }
        }
        calls
    }

    fn waits(&self) -> bool {
        self.waits
    }
}

fn volume_of<'a>(view: &'a View, pod: &Value, claim: &str) -> Option<&'a str> {
    let claim = view.get("persistentvolumeclaims", namespace(pod), claim)?;
    Some(text(claim, "/spec/volumeName")).filter(|volume| !volume.is_empty())
}
