//! RBAC permissions: the ClusterRole of the component, bound in one namespace, is sufficient.

use super::{
    admission::outage_fixture::lock_cluster,
    support::{PodSpace, TEMPLATE, annotations, awaiting, has_label_and_finalizer, requesting_pod},
};
use crate::support::{BINARY, Space, bare, rbac, shared::Shared};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{PersistentVolumeClaim, ServiceAccount},
    rbac::v1::{PolicyRule, Subject},
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use serde_json::json;
use std::path::Path;
use volume_warden_controlplane::{Cluster, Interposer, Warden, WardenBuilder, eventually};

/// The ServiceAccount in the namespace of a test.
const ACCOUNT: &str = "warden";

/// A namespace with a ServiceAccount that has the permissions of the shipped ClusterRole of
/// pvc-provisioner only in that namespace.
struct RestrictedAccount {
    pod_space: PodSpace,
    /// The client of an administrator.
    client: Client,
    interposer: Interposer,
    certificate: (String, String),
}

impl RestrictedAccount {
    async fn new(cluster: Shared, label: &str) -> Result<Self> {
        let pod_space = PodSpace::new(cluster.clone(), label).await?;
        let namespace = &pod_space.space.name;
        let restricted = Self {
            interposer: interposer(&cluster, namespace).await?,
            certificate: certificate(cluster.dir(), namespace)?,
            client: cluster.client(),
            pod_space,
        };
        for (name, role) in [
            ("claims", "volume-warden-pvc-provisioner"),
            ("events", "volume-warden-events"),
        ] {
            restricted.bind_role(name, ("ClusterRole", role)).await?;
        }
        let leases = "leases.coordination.k8s.io";
        let leases = rbac::rule(&["get", "create", "update"], leases);
        restricted.create_and_bind_role("lease", leases).await?;
        restricted.wait_for_lease_permission().await?;
        Ok(restricted)
    }

    /// Waits until the account may update its Lease. The API server reads bindings in order from a
    /// watch, and the binding for the Lease was created last.
    async fn wait_for_lease_permission(&self) -> Result<()> {
        let (account, namespace) = (self.account(), &self.pod_space.space.name);
        let permission = "update leases.coordination.k8s.io";
        eventually("the account may update its Lease", async || {
            rbac::is_allowed(&self.client, &account, namespace, permission).await
        })
        .await
    }

    /// Binds the role, a kind and a name, to the account.
    async fn bind_role(&self, name: &str, role: (&str, &str)) -> Result<()> {
        let (account, namespace) = (self.account(), &self.pod_space.space.name);
        rbac::create_role_binding(&self.client, namespace, name, role, &account).await
    }

    /// Creates a role with this rule and binds it to the account.
    async fn create_and_bind_role(&self, name: &str, rule: PolicyRule) -> Result<()> {
        let namespace = &self.pod_space.space.name;
        rbac::create_role(&self.client, namespace, name, vec![rule]).await?;
        self.bind_role(name, ("Role", name)).await
    }

    fn account(&self) -> Subject {
        rbac::service_account(&self.pod_space.space.name, ACCOUNT)
    }

    fn builder(&self) -> WardenBuilder<'_> {
        let (namespace, (certificate, key)) = (&self.pod_space.space.name, &self.certificate);
        Warden::builder(&self.pod_space.space.cluster, BINARY)
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

/// Creates the account, and starts an interposer with its permissions.
async fn interposer(cluster: &Cluster, namespace: &str) -> Result<Interposer> {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), namespace);
    let account = serde_json::from_value(json!({"metadata": {"name": ACCOUNT}}))?;
    accounts.create(&PostParams::default(), &account).await?;
    Interposer::for_service_account(cluster, namespace, ACCOUNT).await
}

/// Creates the files of a certificate and its key. No webhook is called, so the certificate is not
/// used.
fn certificate(directory: &Path, name: &str) -> Result<(String, String)> {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let file = |suffix| directory.join(format!("{name}.{suffix}"));
    std::fs::write(file("crt"), pair.cert.pem())?;
    std::fs::write(file("key"), pair.signing_key.serialize_pem())?;
    Ok((
        file("crt").display().to_string(),
        file("key").display().to_string(),
    ))
}

/// DP-30: with permissions in one namespace, Volume Warden creates and deletes claims there, and
/// sends no request for another namespace.
#[tokio::test]
async fn permissions_in_one_namespace_suffice() -> Result<()> {
    let cluster = bare().await?;
    let restricted = RestrictedAccount::new(cluster.clone(), "confined").await?;
    let (pod_space, namespace) = (&restricted.pod_space, &restricted.pod_space.space.name);
    let elsewhere = Space::new(cluster.clone(), "elsewhere").await?;
    let builder = restricted.builder().arg("--orphan-grace=1");
    let _warden = builder.start().await?;
    let parameters = PostParams::default();
    elsewhere
        .pods
        .create(&parameters, &requesting_pod("pod", "data", json!({}))?)
        .await?;
    let pod = pod_space.request_claim("pod", "data", json!({})).await?;
    pod_space.belongs("data", &pod).await?;
    pod_space.has_event("pod", "PVCProvisioned", "data").await?;
    pod_space.create_claim("orphan", awaiting()).await?;
    pod_space.space.claim_is_gone("orphan").await?;
    ensure!(elsewhere.claims.get_opt("data").await?.is_none());

    let inside = format!("/namespaces/{namespace}/");
    let mut outside = restricted.interposer.requests();
    outside.retain(|seen| !seen.path.contains(&inside));
    // Webhook configurations have no namespace. Volume Warden works without permission to read
    // them.
    outside.retain(|seen| !seen.path.contains("/volume-warden-pvc-provisioner"));
    ensure!(outside.is_empty(), "{outside:?}");
    let account = format!("system:serviceaccount:{namespace}:{ACCOUNT}");
    let calls = cluster.audit().all()?.by_user(&account);
    let refused = calls.iter().filter(|call| call.code == 403);
    let refused = refused.filter(|call| call.group != "admissionregistration.k8s.io");
    let refused: Vec<_> = refused.collect();
    ensure!(!calls.is_empty() && refused.is_empty(), "{refused:?}");
    let leases: Api<Lease> = Api::namespaced(restricted.client.clone(), namespace);
    leases.get("pvc-provisioner").await.context("the Lease")?;
    Ok(())
}

/// DP-29: where setting `blockOwnerDeletion` requires a permission on pods, Volume Warden needs no
/// such permission, because it does not set `blockOwnerDeletion`. With `--block-owner-deletion`,
/// the behavior of the original, it needs the permission; Events report that the permission is
/// missing.
#[tokio::test]
async fn only_blocking_references_need_permissions_on_pods() -> Result<()> {
    let (cluster, _lock) = lock_cluster().await?;
    let restricted = RestrictedAccount::new(cluster, "enforced").await?;
    let pod_space = &restricted.pod_space;
    let awaiting_and_protected = || {
        let mut changes = awaiting();
        changes["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
        changes
    };
    let warden = restricted.builder().start().await?;
    pod_space
        .create_claim("given", awaiting_and_protected())
        .await?;
    for claim in ["made", "given"] {
        let pod = pod_space.request_claim(claim, claim, json!({})).await?;
        pod_space.belongs(claim, &pod).await?;
    }
    drop(warden);

    let _warden = restricted
        .builder()
        .arg("--block-owner-deletion")
        .start()
        .await?;
    pod_space
        .create_claim("given-later", awaiting_and_protected())
        .await?;
    for claim in ["made-later", "given-later"] {
        pod_space.request_claim(claim, claim, json!({})).await?;
    }
    pod_space.bind("given-later").await?;
    let cause = "cannot set blockOwnerDeletion";
    pod_space
        .has_event("made-later", "ErrPVCProvisionFailed", cause)
        .await?;
    eventually("the claim has an Event with the refusal", async || {
        let events = pod_space
            .space
            .events_with("FailedUpdateOwnerReferences")
            .await?;
        let mut messages = events.iter().filter_map(|event| event.message.as_deref());
        anyhow::Ok(messages.any(|message| message.contains(cause)))
    })
    .await?;
    let given = pod_space.claim("given-later").await?;
    ensure!(given.owner_references().is_empty(), "{given:?}");
    let finalizers = rbac::rule(&["update"], "pods/finalizers");
    restricted
        .create_and_bind_role("finalizers", finalizers)
        .await?;
    for pod in ["made-later", "given-later"] {
        // The edit of the pod triggers a reconcile, so that the test need not wait for the retry.
        let edited = format!("{TEMPLATE}# once more\n");
        let blocks_deletion = eventually("the pod owns its claim", async || {
            pod_space
                .patch_pod(pod, annotations(&[("data.pvc", Some(&edited))]))
                .await?;
            blocks_owner_deletion(&pod_space.claim(pod).await?)
        })
        .await?;
        ensure!(blocks_deletion, "{pod}");
    }
    Ok(())
}

/// The `blockOwnerDeletion` of the first owner reference; `None` if the claim has no owner.
fn blocks_owner_deletion(claim: &PersistentVolumeClaim) -> Result<Option<bool>> {
    has_label_and_finalizer(claim)?;
    let owner = claim.owner_references().first();
    Ok(owner.map(|owner| owner.block_owner_deletion == Some(true)))
}
