//! Tests that no tenant gets a volume of another namespace, in a thousand random attempts.

use super::{
    parking::{review, wanted},
    scene::{Scene, labelled, volume},
    *,
};
use crate::{hashing::HashMap, objects::reuse::CLAIM_NAMESPACE};

const COMBINATIONS: u64 = 1000;

/// One choice of everything that a tenant may write, and of what happened before.
struct Attempt(fastrand::Rng);

impl Attempt {
    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        let index = self.0.usize(..choices.len());
        choices[index].clone()
    }

    /// A claim of another tenant, in another namespace or in a recreated one.
    fn claim(&mut self) -> Value {
        let namespace = self.pick(&["ns", "other"]);
        let name = self.pick(&["data", "parked-pv-uid", "other"]);
        let uid = self.pick(&["2", "7"]);
        let labels = self.pick(&[
            json!(null),
            json!({RELEASER_LABEL: *US}),
            json!({"dynamic-pvc-provisioner.kubernetes.io/managed-by": *US}),
            json!({"volume-warden.dev/release-scope": "cluster"}),
        ]);
        let annotations = self.pick(&[
            json!(null),
            json!({CLAIM_NAMESPACE: "ns/n/1"}),
            json!({"pv.kubernetes.io/bind-completed": "yes"}),
            json!({"volume-warden.dev/release-scope": "cluster"}),
        ]);
        let owners = self.pick(&[
            json!(null),
            json!([{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "data", "uid": "1"}]),
        ]);
        let volume = self.pick(&[json!(null), json!("pv")]);
        let selector = self.pick(&[json!(null), json!({"matchLabels": {"app": "x"}})]);
        let size = self.pick(&["1Gi", "2Gi"]);
        wanted(json!({
            "metadata": {"namespace": namespace, "name": name, "uid": uid, "labels": labels,
                "annotations": annotations, "ownerReferences": owners},
            "spec": {"volumeName": volume, "selector": selector,
                "resources": {"requests": {"storage": size}}},
        }))
    }

    /// A volume of the claim `ns/data` with the uid 1, in the namespace with the uid `n`.
    fn volume(&mut self) -> Value {
        let record = self.pick(&["ns/n/1", "ns/n/0", "other/n/1"].map(|text| json!(text)));
        let record = self.pick(&[json!(null), record]);
        json!({
            "metadata": {"labels": {"app": "x"}, "annotations": {CLAIM_NAMESPACE: record}},
            "spec": {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"]},
        })
    }
}

/// Whether kube-controller-manager could bind the claim to the volume, whatever class, size and
/// labels are.
///
/// Source: `syncUnboundClaim` and `syncBoundClaim` in
/// `pkg/controller/volume/persistentvolume/pv_controller.go` of Kubernetes.
fn may_bind(volume: &Value, claim: &Value) -> bool {
    let reference = &volume["spec"]["claimRef"];
    let (wants, has) = (&claim["metadata"], reference);
    let named = has["namespace"] == wants["namespace"] && has["name"] == wants["name"];
    reference.is_null() || (named && (has["uid"].is_null() || has["uid"] == wants["uid"]))
}

/// Applies the patches that Volume Warden has sent since the last call, as the API server does.
fn written(scene: &Scene, seen: &mut usize, volume: &mut Value) {
    let sent = scene.server.sent("PATCH persistentvolumes");
    for patch in &sent[*seen..] {
        let patch: json_patch::Patch = serde_json::from_value(patch.clone()).expect("a patch");
        json_patch::patch(volume, &patch).expect("its tests hold");
        let version = volume["metadata"]["resourceVersion"].as_str();
        let version: u64 = version
            .and_then(|text| text.parse().ok())
            .expect("a number");
        volume["metadata"]["resourceVersion"] = (version + 1).to_string().into();
    }
    *seen = sent.len();
}

/// Follows a volume from its release to the creation of the claim of another tenant.
async fn volume_after(seed: u64, options: Options) -> (Value, Value) {
    let mut attempt = Attempt(fastrand::Rng::with_seed(seed));
    let (claim, changes) = (attempt.claim(), changed(labelled(), attempt.volume()));
    let mut wire = volume("5", changes);
    let scene = Scene::new(options);
    let (mut seen, own) = (0, claim["metadata"]["namespace"] == "ns");
    // The namespace is recreated before the release, after it, or after the reservation.
    let recreated = attempt.pick(&[1, 2, 3]);
    let uid = |step| Some(if own && step >= recreated { "m" } else { "n" });
    for step in 1..=3 {
        *scene.server.namespace.lock() = uid(step);
        *scene.server.claim.lock() = Some(claim.clone()).filter(|_| step >= recreated);
        scene.deliver(&scene.releaser.caches.volumes, wire.clone());
        scene.reconcile().await;
        written(&scene, &mut seen, &mut wire);
        if wire["spec"]["claimRef"]["uid"].is_null() {
            wire["status"]["phase"] = json!("Available");
        }
    }
    // In half of the cases, a claim in the original namespace is reviewed first, for which the
    // volume may be reserved.
    if attempt.pick(&[true, false]) && options_of(&scene) == Scope::Namespace {
        *scene.server.namespace.lock() = Some("n");
        scene.deliver(&scene.releaser.caches.volumes, wire.clone());
        let mut earlier = claim.clone();
        earlier["metadata"]["namespace"] = json!("ns");
        let _ = scene
            .releaser
            .reservations
            .review(&review(&earlier, false))
            .await;
        written(&scene, &mut seen, &mut wire);
    }
    *scene.server.namespace.lock() = Some(if own { "m" } else { "n" });
    scene.deliver(&scene.releaser.caches.volumes, wire.clone());
    let _ = scene
        .releaser
        .reservations
        .review(&review(&claim, false))
        .await;
    written(&scene, &mut seen, &mut wire);
    (wire, claim)
}

fn options_of(scene: &Scene) -> Scope {
    scene.releaser.caches.options.scope()
}

#[tokio::test(start_paused = true)]
async fn no_volume_crosses_tenants_in_a_thousand_combinations() {
    let mut ends: HashMap<String, u32> = HashMap::default();
    for seed in 0..COMBINATIONS {
        let (volume, claim) = volume_after(seed, Options::default()).await;
        assert!(!may_bind(&volume, &claim), "seed {seed}: {volume} {claim}");
        let name = volume["spec"]["claimRef"]["name"]
            .as_str()
            .unwrap_or_default();
        let uid = volume["spec"]["claimRef"]["uid"].is_null();
        *ends
            .entry(format!("{} {uid}", name.starts_with("parked-")))
            .or_default() += 1;
    }
    // Both outcomes occurred often: the volume was parked, or stayed Released because nothing
    // proved its namespace.
    for end in ["true true", "false false"] {
        assert!(ends.get(end).is_some_and(|count| *count > 100), "{ends:?}");
    }
}

/// The same attempts succeed if volumes are released to any claim, which shows that the test above
/// can fail.
#[tokio::test(start_paused = true)]
async fn with_the_scope_cluster_most_attempts_succeed() {
    let mut crossed = 0;
    for seed in 0..100 {
        let (volume, claim) = volume_after(seed, cluster()).await;
        crossed += u32::from(may_bind(&volume, &claim));
    }
    assert!(crossed > 90, "{crossed}");
}
