//! A namespace with claims in all states, in which a drain runs.

use crate::{
    drain::support::{DrainFixture, Drained},
    pvc_retention::{
        faults::{FaultFixture, pods_with_finalizer},
        support::{DELETE_DELETE, DELETE_RETAIN, MARK, RETAIN_DELETE, RETAIN_RETAIN},
    },
};
use anyhow::{Context, Result, ensure};
use kube::api::DeleteParams;
use serde_json::json;
use std::collections::BTreeMap;
use volume_warden_controlplane::eventually;

/// The owners of a claim, written as `StatefulSet/web`, whether the claim has the marker, and its
/// resourceVersion.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimState {
    pub owners: Vec<String>,
    pub marked: bool,
    pub version: Option<String>,
}

/// A namespace with sets and claims for one drain. `drain_fixture` runs the drain; `fixture`
/// creates the sets and starts Volume Warden.
pub struct Scene {
    pub drain_fixture: DrainFixture,
    pub fixture: FaultFixture,
}

impl Scene {
    pub async fn new(label: &str) -> Result<Self> {
        let drain_fixture = DrainFixture::new(label).await?;
        let fixture = FaultFixture::on_cluster(drain_fixture.space.cluster.clone(), label).await?;
        Ok(Self {
            drain_fixture,
            fixture,
        })
    }

    /// Drains this component in this namespace. Retries once if a Lease was not acquired, because
    /// a busy API server may answer too late.
    pub async fn drain(&self, arguments: &[&str]) -> Result<Drained> {
        let namespace = &self.fixture.sets.space.name;
        let only = ["--components=pvc-retention", "--namespace", namespace];
        let all = [&only, arguments].concat();
        let drained = self.drain_fixture.drain(&all).await?;
        if drained.stderr.contains("was not acquired") {
            return self.drain_fixture.drain(&all).await;
        }
        Ok(drained)
    }

    /// The state of each claim of the namespace by its name.
    pub async fn claims(&self) -> Result<BTreeMap<String, ClaimState>> {
        let list = self
            .fixture
            .sets
            .space
            .claims
            .list(&Default::default())
            .await?;
        let states = list.items.into_iter().map(|claim| {
            let metadata = claim.metadata;
            let owners = metadata.owner_references.unwrap_or_default();
            let state = ClaimState {
                owners: owners
                    .into_iter()
                    .map(|owner| format!("{}/{}", owner.kind, owner.name))
                    .collect(),
                marked: metadata
                    .annotations
                    .is_some_and(|all| all.contains_key(MARK)),
                version: metadata.resource_version,
            };
            (metadata.name.unwrap_or_default(), state)
        });
        Ok(states.collect())
    }

    /// Creates a set with two replicas for each of the four policies. The sets with
    /// `whenScaled: Delete` are scaled down to one replica, and finalizers keep the pods of the
    /// scale-down. The claim `data-dr-0` also has a foreign owner. Stops Volume Warden when all
    /// owner references and markers are written.
    pub async fn with_claims_in_all_states(label: &str) -> Result<Self> {
        let scene = Self::new(label).await?;
        let fixture = &scene.fixture;
        let sets = &fixture.sets;
        let warden = fixture.start().await?;
        for (name, policy) in [
            ("rr", RETAIN_RETAIN),
            ("rd", RETAIN_DELETE),
            ("dr", DELETE_RETAIN),
            ("dd", DELETE_DELETE),
        ] {
            sets.create_with(name, 2, policy, pods_with_finalizer())
                .await?;
        }
        for name in ["dr", "dd"] {
            let claim = format!("data-{name}-0");
            let owner = format!("StatefulSet/{name}");
            sets.claim_is_owned_by(&claim, &[&owner]).await?;
        }
        let mut owners = vec![fixture.foreign_owner(false).await?];
        for owner in sets.owners("data-dr-0").await? {
            owners.push(serde_json::to_value(owner)?);
        }
        sets.space
            .patch_claim(
                "data-dr-0",
                json!({"metadata": {"ownerReferences": owners}}),
            )
            .await?;
        for name in ["rd", "dd"] {
            sets.scale(name, 1).await?;
        }
        scene.owners_and_markers_are_written().await?;
        let status = warden.stop().await?;
        ensure!(status.success(), "{status}");
        Ok(scene)
    }

    async fn owners_and_markers_are_written(&self) -> Result<()> {
        let expected = [
            ("data-dd-0", vec!["StatefulSet/dd"], true),
            ("data-dd-1", vec!["Pod/dd-1"], true),
            (
                "data-dr-0",
                vec!["ConfigMap/other", "StatefulSet/dr"],
                false,
            ),
            ("data-dr-1", vec!["StatefulSet/dr"], false),
            ("data-rd-0", vec![], true),
            ("data-rd-1", vec!["Pod/rd-1"], true),
            ("data-rr-0", vec![], false),
            ("data-rr-1", vec![], false),
        ];
        eventually("all owner references and markers are written", async || {
            let claims = self.claims().await?;
            for (name, owners, marked) in &expected {
                let state = claims.get(*name).context(*name)?;
                ensure!(
                    state.owners == *owners && state.marked == *marked,
                    "{name}: {state:?}"
                );
            }
            Ok(())
        })
        .await
    }

    /// Deletes all sets and their pods. Waits until the garbage collector has processed the
    /// deletion of each set: it has deleted a ConfigMap that the set owns.
    pub async fn delete_all_sets(&self) -> Result<()> {
        let sets = &self.fixture.sets;
        let all = ["rr", "rd", "dr", "dd"];
        for name in all {
            let uid = sets.sets.get(name).await?.metadata.uid;
            let canary = format!("canary-{name}");
            let owner =
                json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": uid}]);
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": canary, "ownerReferences": owner},
            });
            let namespace = ["create", "-n", &sets.space.name, "-f", "-"];
            sets.space
                .cluster
                .kubectl_with_stdin(&namespace, &map.to_string())
                .await?;
        }
        for name in all {
            sets.delete(name, &DeleteParams::background()).await?;
        }
        for pod in [
            "rr-0", "rr-1", "rd-0", "rd-1", "dr-0", "dr-1", "dd-0", "dd-1",
        ] {
            self.fixture.finish_pod_deletion(pod).await?;
        }
        eventually("the dependents of the sets are deleted", async || {
            let names = ["get", "configmaps", "-n", &sets.space.name, "-o", "name"];
            let left = sets.space.cluster.kubectl(&names).await?;
            ensure!(!left.contains("canary-"), "{left}");
            Ok(())
        })
        .await
    }
}
