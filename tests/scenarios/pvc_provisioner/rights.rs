//! Required RBAC permissions: those of the component alone, in one namespace.

use super::{
    admission::outage_fixture::turn,
    support::{Askers, TEMPLATE, annotations, asking, awaiting, is_made},
};
use crate::support::{BINARY, Space, bare, shared::Shared};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{ResourceExt, api::PostParams};
use serde_json::json;
use std::path::Path;
use volume_warden_controlplane::{Cluster, Interposer, Warden, WardenBuilder, eventually};

/// A namespace with an account that has the permissions of pvc-provisioner's shipped ClusterRole
/// only in that namespace.
struct Confined {
    askers: Askers,
    interposer: Interposer,
    certificate: (String, String),
}

impl Confined {
    async fn new(cluster: Shared, label: &str) -> Result<Self> {
        let askers = Askers::new(cluster.clone(), label).await?;
        let namespace = &askers.space.name;
        let confined = Self {
            interposer: interposer(&cluster, namespace).await?,
            certificate: certificate(cluster.dir(), namespace)?,
            askers,
        };
        confined
            .may("claims", "--clusterrole=volume-warden-pvc-provisioner")
            .await?;
        confined
            .may("events", "--clusterrole=volume-warden-events")
            .await?;
        let leases = "--resource=leases.coordination.k8s.io";
        confined
            .role("lease", "--verb=get,create,update", leases)
            .await?;
        confined.may_hold_its_lease().await?;
        Ok(confined)
    }

    /// Waits until the account may hold its Lease. The API server learns of bindings in order, by
    /// a watch of its own, and this one was created last.
    async fn may_hold_its_lease(&self) -> Result<()> {
        let account = format!("--as=system:serviceaccount:{}", self.account());
        let right = "leases.coordination.k8s.io";
        let question = ["auth", "can-i", "update", right, &account];
        eventually("the account may hold its Lease", async || {
            self.kubectl(&question).await
        })
        .await
    }

    /// Binds the role to the account.
    async fn may(&self, name: &str, role: &str) -> Result<()> {
        let account = format!("--serviceaccount={}", self.account());
        self.kubectl(&["create", "rolebinding", name, role, &account])
            .await
    }

    /// Creates the role and binds it to the account.
    async fn role(&self, name: &str, verbs: &str, resource: &str) -> Result<()> {
        self.kubectl(&["create", "role", name, verbs, resource])
            .await?;
        self.may(name, &format!("--role={name}")).await
    }

    async fn kubectl(&self, arguments: &[&str]) -> Result<()> {
        let space = &self.askers.space;
        let arguments = [arguments, &["-n", &space.name]].concat();
        space.cluster.kubectl(&arguments).await.map(drop)
    }

    fn account(&self) -> String {
        format!("{}:warden", self.askers.space.name)
    }

    fn builder(&self) -> WardenBuilder<'_> {
        let (namespace, (certificate, key)) = (&self.askers.space.name, &self.certificate);
        Warden::builder(&self.askers.space.cluster, BINARY)
            .name(namespace.clone())
            .kubeconfig(self.interposer.kubeconfig())
            .arg(format!("--namespace={namespace}"))
            .arg(format!("--leader-elect-resource-namespace={namespace}"))
            .arg("--leader-elect-identity=confined")
            // A generated certificate would need permissions on webhook configurations.
            .arg(format!("--tls-cert-file={certificate}"))
            .arg(format!("--tls-private-key-file={key}"))
            .arg("--components=pvc-provisioner")
    }
}

async fn interposer(cluster: &Cluster, namespace: &str) -> Result<Interposer> {
    let account = ["create", "serviceaccount", "warden", "-n", namespace];
    cluster.kubectl(&account).await?;
    Interposer::for_service_account(cluster, namespace, "warden").await
}

/// Files of an unused certificate: no webhook is called here.
fn certificate(directory: &Path, name: &str) -> Result<(String, String)> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let file = |suffix| directory.join(format!("{name}.{suffix}"));
    std::fs::write(file("crt"), made.cert.pem())?;
    std::fs::write(file("key"), made.signing_key.serialize_pem())?;
    Ok((
        file("crt").display().to_string(),
        file("key").display().to_string(),
    ))
}

/// DP-30: Volume Warden works in that namespace, and sends no request to any other.
#[tokio::test]
async fn permissions_in_one_namespace_suffice() -> Result<()> {
    let cluster = bare().await?;
    let confined = Confined::new(cluster.clone(), "confined").await?;
    let (askers, namespace) = (&confined.askers, &confined.askers.space.name);
    let elsewhere = Space::new(cluster.clone(), "elsewhere").await?;
    let impatient = confined.builder().arg("--orphan-grace=1");
    let _warden = impatient.start().await?;
    let parameters = PostParams::default();
    elsewhere
        .pods
        .create(&parameters, &asking("pod", "data", json!({}))?)
        .await?;
    let pod = askers.ask("pod", "data", json!({})).await?;
    askers.belongs("data", &pod).await?;
    askers.has_event("pod", "PVCProvisioned", "data").await?;
    askers.create_claim("orphan", awaiting()).await?;
    askers.space.claim_is_gone("orphan").await?;
    ensure!(elsewhere.claims.get_opt("data").await?.is_none());

    let inside = format!("/namespaces/{namespace}/");
    let mut asked = confined.interposer.requests();
    asked.retain(|seen| !seen.path.contains(&inside));
    // Webhook configurations have no namespace. Volume Warden works without permission to read
    // them.
    asked.retain(|seen| !seen.path.contains("/volume-warden-pvc-provisioner"));
    ensure!(asked.is_empty(), "{asked:?}");
    let account = format!("system:serviceaccount:{}", confined.account());
    let calls = cluster.audit().all()?.by_user(&account);
    let refused = calls.iter().filter(|call| call.code == 403);
    let refused = refused.filter(|call| call.group != "admissionregistration.k8s.io");
    let refused: Vec<_> = refused.collect();
    ensure!(!calls.is_empty() && refused.is_empty(), "{refused:?}");
    let lease = ["get", "lease", "pvc-provisioner"];
    confined.kubectl(&lease).await.context("the Lease")
}

/// DP-29: where `blockOwnerDeletion` requires a permission, pods own their claims without it. The
/// original's `blockOwnerDeletion` needs the permission, and an Event says so.
#[tokio::test]
async fn only_blocking_references_need_permissions_on_pods() -> Result<()> {
    let (cluster, _turn) = turn().await?;
    let confined = Confined::new(cluster, "enforced").await?;
    let askers = &confined.askers;
    let fresh = || {
        let mut fresh = awaiting();
        fresh["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
        fresh
    };
    let warden = confined.builder().start().await?;
    askers.create_claim("given", fresh()).await?;
    for claim in ["made", "given"] {
        let pod = askers.ask(claim, claim, json!({})).await?;
        askers.belongs(claim, &pod).await?;
    }
    drop(warden);

    let _warden = confined
        .builder()
        .arg("--block-owner-deletion")
        .start()
        .await?;
    askers.create_claim("given-later", fresh()).await?;
    for claim in ["made-later", "given-later"] {
        askers.ask(claim, claim, json!({})).await?;
    }
    askers.bind("given-later").await?;
    let cause = "cannot set blockOwnerDeletion";
    askers
        .has_event("made-later", "ErrPVCProvisionFailed", cause)
        .await?;
    eventually("the claim has an Event with the refusal", async || {
        let events = askers
            .space
            .events_with("FailedUpdateOwnerReferences")
            .await?;
        let mut notes = events.iter().filter_map(|event| event.message.as_deref());
        anyhow::Ok(notes.any(|note| note.contains(cause)))
    })
    .await?;
    let given = askers.claim("given-later").await?;
    ensure!(given.owner_references().is_empty(), "{given:?}");
    confined
        .role("finalizers", "--verb=update", "--resource=pods/finalizers")
        .await?;
    for pod in ["made-later", "given-later"] {
        // Avoids waiting for the retry.
        let edited = format!("{TEMPLATE}# once more\n");
        let blocks = eventually("the pod owns its claim", async || {
            askers
                .patch_pod(pod, annotations(&[("data.pvc", Some(&edited))]))
                .await?;
            blocks(&askers.claim(pod).await?)
        })
        .await?;
        ensure!(blocks, "{pod}");
    }
    Ok(())
}

/// The owner reference's `blockOwnerDeletion`; `None` until there is an owner.
fn blocks(claim: &PersistentVolumeClaim) -> Result<Option<bool>> {
    is_made(claim)?;
    let owner = claim.owner_references().first();
    Ok(owner.map(|owner| owner.block_owner_deletion == Some(true)))
}
