//! Pods that request one claim each.

use crate::{
    book::{Birth, Pages, version},
    each::each,
    figures::Times,
};
use anyhow::Result;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const PREFIX: &str = "dynamic-pvc-provisioner.kubernetes.io/";
/// A class without a provisioner.
const UNPROVISIONED: &str = "unprovisioned";
const TEMPLATE: &str = "\
apiVersion: v1
kind: PersistentVolumeClaim
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: unprovisioned
  resources:
    requests:
      storage: 1Gi
";

/// A namespace in which pods and claims are created.
pub struct Space {
    /// The claims of the namespace.
    pub claims: Api<PersistentVolumeClaim>,
    /// The pods of the namespace.
    pub pods: Api<Pod>,
    /// The StorageClass of the claims.
    class: String,
}

/// Whether a pod has the annotations. The pods are otherwise the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Without annotations: Volume Warden does not create the pod's claim.
    Plain,
    /// With annotations: Volume Warden creates the pod's claim.
    Annotated,
}

/// A pod that was created.
pub struct Posted {
    /// The name of the pod.
    pub name: String,
    /// The name of the pod's claim.
    pub claim: String,
    /// The duration of the pod's POST.
    pub took: Duration,
    /// The time at which the pod's POST returned.
    pub returned: Instant,
    version: u64,
}

impl Space {
    /// The namespace with this name.
    pub fn of(client: &Client, namespace: &str) -> Self {
        Self {
            claims: Api::namespaced(client.clone(), namespace),
            pods: Api::namespaced(client.clone(), namespace),
            class: UNPROVISIONED.to_owned(),
        }
    }

    /// The same namespace, with claims of this StorageClass.
    pub fn of_class(mut self, class: &str) -> Self {
        class.clone_into(&mut self.class);
        self
    }

    /// Creates this many pods, with `at_once` concurrent POSTs.
    pub async fn post(&self, kind: Kind, count: usize, at_once: usize) -> Result<Vec<Posted>> {
        each(count, at_once, async |index| {
            self.post_one(kind, &format!("{index:05}")).await
        })
        .await
    }

    /// Creates a pod.
    pub async fn post_one(&self, kind: Kind, name: &str) -> Result<Posted> {
        let pod = pod(kind, name, &self.class)?;
        let started = Instant::now();
        let created = self.pods.create(&PostParams::default(), &pod).await?;
        let returned = Instant::now();
        Ok(Posted {
            name: name.to_owned(),
            claim: claim_name(name),
            took: returned.duration_since(started),
            returned,
            version: version(&created),
        })
    }

    /// Creates the claim of the pod with this name, as users do.
    pub async fn post_claim(&self, name: &str) -> Result<()> {
        let claim = serde_json::from_value(json!({
            "metadata": {"name": claim_name(name)},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": self.class,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }))?;
        let created = self.claims.create(&PostParams::default(), &claim).await;
        Ok(created.map(drop)?)
    }

    /// Sets the phase of the claim of the pod with this name to Bound, as the binder does.
    pub async fn bind(&self, name: &str) -> Result<()> {
        let bound = Patch::Merge(json!({"status": {"phase": "Bound"}}));
        let (name, parameters) = (claim_name(name), PatchParams::default());
        let patched = self.claims.patch_status(&name, &parameters, &bound).await;
        Ok(patched.map(drop)?)
    }

    /// Creates an annotated pod with a dry run, which calls the webhook.
    pub async fn probe(&self) -> Result<()> {
        let parameters = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let pod = pod(Kind::Annotated, "probe", &self.class)?;
        self.pods.create(&parameters, &pod).await.map(drop)?;
        Ok(())
    }
}

impl Posted {
    /// Whether the claim was stored before the pod. The resource versions order all writes.
    pub fn has_been_served(&self, claims: &Pages<Birth>) -> bool {
        let created = claims.get(&self.claim).and_then(|birth| birth.created);
        created.is_some_and(|(_, version)| version < self.version)
    }

    /// The time from the POST's response until the claim was seen; zero if it was seen earlier.
    pub fn waited(&self, claims: &Pages<Birth>) -> Option<Duration> {
        let (seen, _) = claims.get(&self.claim)?.created?;
        Some(seen.saturating_duration_since(self.returned))
    }
}

/// The durations of the POSTs.
pub fn times(posted: &[Posted]) -> Times {
    posted.iter().map(|pod| pod.took).collect()
}

/// The name of the claim of the pod with this name.
pub fn claim_name(pod: &str) -> String {
    format!("claim-of-{pod}")
}

fn pod(kind: Kind, name: &str, class: &str) -> Result<Pod> {
    let key = |suffix: &str| format!("{PREFIX}data.{suffix}");
    let annotations = match kind {
        Kind::Plain => Value::Null,
        Kind::Annotated => {
            json!({key("enabled"): "true", key("pvc"): TEMPLATE.replace(UNPROVISIONED, class)})
        }
    };
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "containers": [{"name": "main", "image": "main", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name(name)}}],
        },
    }))?)
}
